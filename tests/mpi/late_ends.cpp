/// A message starts although a kernel of another queue runs, on a driver that reports the ends of
/// markers late (tests/cluster/like_nvidia.c). Run it with two processes.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include <CL/cl_ext_dist.h>

namespace {

void check(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "FAILED: %s returned %d\n", call, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// Returns while a kernel of the queue runs, which ends when `stop` is set.
void start_kernel(cl_context context, cl_device_id device, cl_command_queue queue, cl_mem stop) {
    const char *source =
        "kernel void wait(global int *stop) { while (atomic_or(stop, 0) == 0) {} }";
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", nullptr, nullptr), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "wait", &code);
    check(code, "clCreateKernel");
    check(clSetKernelArg(kernel, 0, sizeof stop, &stop), "clSetKernelArg");
    const std::size_t one = 1;
    cl_event event = nullptr;
    check(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &one, nullptr, 0, nullptr, &event),
          "clEnqueueNDRangeKernel");
    check(clFlush(queue), "clFlush");
    cl_int status = CL_QUEUED;
    while (status != CL_RUNNING) {
        std::this_thread::yield();
        check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                             nullptr),
              "clGetEventInfo");
    }
    clReleaseEvent(event);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

}  // namespace

int main(int argc, char **argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "clGetDeviceIDs");
    cl_int code = CL_SUCCESS;
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    check(code, "clCreateContext");
    cl_command_queue computing =
        clCreateCommandQueueWithProperties(context, device, nullptr, &code);
    check(code, "clCreateCommandQueueWithProperties");
    cl_command_queue sending = clCreateCommandQueueWithProperties(context, device, nullptr, &code);
    check(code, "clCreateCommandQueueWithProperties");
    alignas(4096) static std::atomic<cl_int> stop{0};
    cl_mem stop_buffer = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, sizeof stop,
                                        static_cast<void *>(&stop), &code);
    check(code, "clCreateBuffer");

    constexpr std::size_t size = 4096;
    std::vector<char> bytes(size, rank == 0 ? 'x' : 'y');
    cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, bytes.data(), &code);
    check(code, "clCreateBuffer");
    start_kernel(context, device, computing, stop_buffer);
    const auto message = rank == 0 ? clEnqueueSendBuffer : clEnqueueRecvBuffer;
    check(message(sending, buffer, CL_FALSE, 0, size, 1 - rank, 3, MPI_COMM_WORLD, 0, nullptr,
                  nullptr),
          "a message");
    check(clFinish(sending), "clFinish");
    stop = 1;
    check(clFinish(computing), "clFinish");
    check(clEnqueueReadBuffer(sending, buffer, CL_TRUE, 0, size, bytes.data(), 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    const bool right = bytes == std::vector<char>(size, 'x');
    std::printf("rank %d: %s\n", rank, right ? "ok" : "WRONG");
    for (cl_mem each : {stop_buffer, buffer}) clReleaseMemObject(each);
    for (cl_command_queue each : {computing, sending}) clReleaseCommandQueue(each);
    clReleaseContext(context);
    MPI_Finalize();
    return right ? 0 : 1;
}
