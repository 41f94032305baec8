/// For programs that launch one kernel on the first device. They use no test framework, because
/// they run in several processes and a script checks their output.
#pragma once

#include <CL/cl.h>

#include <cstdio>
#include <cstdlib>

namespace cluster_test {

inline void require(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "%s: %d\n", call, code);
    std::exit(1);
}

class OneKernel {
public:
    OneKernel(const char *source, const char *name) {
        cl_platform_id platform = nullptr;
        cl_device_id device = nullptr;
        require(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
        require(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr),
                "clGetDeviceIDs");
        cl_int code = CL_SUCCESS;
        context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
        require(code, "clCreateContext");
        queue = clCreateCommandQueue(context, device, 0, &code);
        require(code, "clCreateCommandQueue");
        program_ = clCreateProgramWithSource(context, 1, &source, nullptr, &code);
        require(code, "clCreateProgramWithSource");
        require(clBuildProgram(program_, 0, nullptr, "", nullptr, nullptr), "clBuildProgram");
        kernel = clCreateKernel(program_, name, &code);
        require(code, "clCreateKernel");
    }
    OneKernel(const OneKernel &) = delete;
    OneKernel &operator=(const OneKernel &) = delete;
    ~OneKernel() {
        clReleaseKernel(kernel);
        clReleaseProgram(program_);
        clReleaseCommandQueue(queue);
        clReleaseContext(context);
    }

    cl_context context = nullptr;
    cl_command_queue queue = nullptr;
    cl_kernel kernel = nullptr;

private:
    cl_program program_ = nullptr;
};

}  // namespace cluster_test
