/// A plain OpenCL program that waits for kernels one by one: with blocking reads, by polling
/// events, or with clWaitForEvents.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <CL/cl.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: cluster_waits read|poll|wait COUNT\n");
        return 2;
    }
    const std::string_view how = argv[1];
    const int count = std::atoi(argv[2]);
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    cl_int code = CL_SUCCESS;
    if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS)
        return 1;
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    std::vector<int> values(1024);
    cl_mem buffer =
        clCreateBuffer(context, CL_MEM_READ_WRITE, values.size() * sizeof(int), nullptr, &code);
    const char *source = "kernel void next(global int *a) { a[get_global_id(0)] += 1; }";
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
    clBuildProgram(program, 0, nullptr, "", nullptr, nullptr);
    cl_kernel kernel = clCreateKernel(program, "next", &code);
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    const std::size_t items = values.size();
    clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, nullptr, 0, nullptr, nullptr);
    clFinish(queue);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
        cl_event event = nullptr;
        clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, nullptr, 0, nullptr, &event);
        clFlush(queue);
        if (how == "read") {
            clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, items * sizeof(int), values.data(), 0,
                                nullptr, nullptr);
        } else if (how == "poll") {
            for (cl_int status = CL_QUEUED; status > CL_COMPLETE;)
                clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                               nullptr);
        } else {
            clWaitForEvents(1, &event);
        }
        clReleaseEvent(event);
    }
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    char rank = '0';
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
        if (const char *told = std::getenv(name)) rank = *told;
    if (rank == '0') std::printf("%.3f\n", time.count() / count);
    return 0;
}
