// Simulates a platform whose clReleaseContext never returns in threads other than the main thread,
// as sometimes happens with NVIDIA's driver. This program defines its own clReleaseContext, which
// the library calls instead of the platform's. The program must still end. If only the first
// release hangs (argument "first"), later contexts must be released.
#include <CL/cl_ext_dist.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

const std::thread::id main_thread = std::this_thread::get_id();
bool first_alone = false;
std::atomic<cl_context> kept = nullptr;
std::atomic<bool> other_went = false;

void expect(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "UNEXPECTED: %s returned %d\n", call, code);
    std::_Exit(9);
}

void use_a_context(cl_device_id device) {
    cl_int code = CL_SUCCESS;
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    expect(code, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    expect(code, "clCreateCommandQueue");
    std::array<int, 100> data{};
    cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof data, data.data(), &code);
    expect(code, "clCreateBuffer");
    expect(clEnqueueSendrecvBuffer(queue, buffer, CL_TRUE, 0, 100, 0, 1, buffer, 200, 100, 0, 1,
                                   MPI_COMM_SELF, 0, nullptr, nullptr),
           "clEnqueueSendrecvBuffer");
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

}  // namespace

extern "C" CL_API_ENTRY cl_int CL_API_CALL clReleaseContext(cl_context context) {
    if (std::this_thread::get_id() != main_thread) {
        cl_context none = nullptr;
        if (!first_alone || kept.compare_exchange_strong(none, context))
            for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
        other_went = other_went || context != kept;
    }
    decltype(&clReleaseContext) next = nullptr;
    void *const symbol = dlsym(RTLD_NEXT, "clReleaseContext");
    std::memcpy(&next, &symbol, sizeof next);
    return next(context);
}

int main(int argc, char **argv) {
    first_alone = argc > 1 && std::strcmp(argv[1], "first") == 0;
    MPI_Init(&argc, &argv);
    cl_device_id device = nullptr;
    expect(clDistLocalDevice(MPI_COMM_WORLD, nullptr, CL_DEVICE_TYPE_ALL, &device),
           "clDistLocalDevice");
    use_a_context(device);
    while (first_alone && !other_went) {
        use_a_context(device);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    MPI_Finalize();
    std::fprintf(stderr, "returned from MPI_Finalize\n");
    return 0;
}
