// Path device: the program releases its buffers while commands use them. NVIDIA's driver (580) does
// not return from the last release of a buffer while a kernel waits, and the kernel may wait for
// what the progress thread does. So this thread must not release buffers. This program defines its
// own clReleaseMemObject, which the library calls instead of the platform's.
#include <dlfcn.h>
#include <sys/prctl.h>

#include <atomic>
#include <semaphore>
#include <string>

#include "bare_device.hpp"

using namespace cldist_test;

namespace {

std::atomic<int> by_progress_thread = 0;
std::counting_semaphore<> destroyed(0);

}  // namespace

extern "C" CL_API_ENTRY cl_int CL_API_CALL clReleaseMemObject(cl_mem buffer) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (std::string(name) == "cldist-progress") ++by_progress_thread;
    static const auto next =
        reinterpret_cast<decltype(&clReleaseMemObject)>(dlsym(RTLD_NEXT, "clReleaseMemObject"));
    return next(buffer);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    constexpr std::size_t size = 1000;
    const bare_device d(size);
    int on_device[2] = {0, 0};  // exchanges, collectives
    // The first commands prepare the path.
    for (int i = 0; i < 200; ++i) {
        if (i == 100) by_progress_thread = on_device[0] = on_device[1] = 0;
        cl_int error = CL_SUCCESS;
        cl_mem buffers[2];
        for (cl_mem &buffer : buffers) {
            buffer = clCreateBuffer(d.context, CL_MEM_READ_WRITE, size, nullptr, &error);
            expect("clCreateBuffer", error, CL_SUCCESS);
            clSetMemObjectDestructorCallback(
                buffer, [](cl_mem, void *) { destroyed.release(); }, nullptr);
        }
        cl_event events[2];
        expect(
            "clEnqueueSendrecvBuffer",
            clEnqueueSendrecvBuffer(d.queue, buffers[0], CL_FALSE, 0, size, 1 - rank, 1, buffers[1],
                                    0, size, 1 - rank, 1, MPI_COMM_WORLD, 0, nullptr, &events[0]),
            CL_SUCCESS);
        expect(
            "clEnqueueAllreduceBufferMPI",
            clEnqueueAllreduceBufferMPI(d.queue, buffers[0], CL_FALSE, 0, buffers[1], 0, size / 4,
                                        MPI_INT, MPI_MAX, MPI_COMM_WORLD, 0, nullptr, &events[1]),
            CL_SUCCESS);
        for (cl_mem buffer : buffers) clReleaseMemObject(buffer);
        clWaitForEvents(2, events);
        for (int k = 0; k < 2; ++k) {
            char path[16] = "";
            clGetTransferInfo(events[k], CL_TRANSFER_PATH, sizeof path, path, nullptr);
            on_device[k] += std::string(path) == "device" ? 1 : 0;
            clReleaseEvent(events[k]);
        }
        for (int k = 0; k < 2; ++k) destroyed.acquire();
    }
    expect("whether kernels moved exchanges", on_device[0] > 50, 1);
    expect("whether kernels carried out collectives", on_device[1] > 50, 1);
    expect("the number of buffers that the progress thread released", by_progress_thread, 0);
    d.release();
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
