/// What the programs of the fault tests share. What they print on standard error is checked by the scripts that run them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <CL/cl_ext_dist.h>

namespace cldist_fault {

inline int failures = 0;

inline void expect(const char *what, long found, long wanted) {
    if (found != wanted) {
        std::fprintf(stderr, "UNEXPECTED: %s is %ld, not %ld\n", what, found, wanted);
        ++failures;
    }
}

struct device {
    explicit device(std::size_t size) {
        cl_uint number = 0;
        cl_platform_id platforms[16];
        clGetPlatformIDs(16, platforms, &number);
        const char *wanted = std::getenv("CLDIST_TEST_DEVICE");
        for (const cl_device_type type : {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU}) {
            if (wanted != nullptr && (std::string(wanted) == "gpu") != (type == CL_DEVICE_TYPE_GPU)) {
                continue;
            }
            for (cl_uint i = 0; i < number && i < 16 && id == nullptr; ++i) {
                clGetDeviceIDs(platforms[i], type, 1, &id, nullptr);
            }
        }
        cl_int error = CL_SUCCESS;
        context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &error);
        queue = clCreateCommandQueue(context, id, 0, &error);
        buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, size, nullptr, &error);
        expect("the OpenCL device", error, CL_SUCCESS);
    }

    cl_device_id id = nullptr;
    cl_context context = nullptr;
    cl_command_queue queue = nullptr;
    cl_mem buffer = nullptr;
};

inline cl_int status_told(cl_event event) {
    cl_int status = CL_QUEUED;
    expect("clGetTransferInfo", clGetTransferInfo(event, CL_TRANSFER_STATUS, sizeof(status), &status, nullptr),
           CL_SUCCESS);
    return status;
}

}  // namespace cldist_fault
