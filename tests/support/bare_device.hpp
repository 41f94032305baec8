/// For tests with their own main(): a check that continues after a failure, and a device
/// without MPI.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <CL/cl_ext_dist.h>

namespace cldist_test {

/// Number of failed checks in this process.
inline int failures = 0;

inline void expect(const char *what, long found, long wanted) {
    if (found != wanted) {
        std::fprintf(stderr, "UNEXPECTED: %s is %ld, not %ld\n", what, found, wanted);
        ++failures;
    }
}

/// The first device of the type in CLDIST_TEST_DEVICE ("cpu" or "gpu"). If it is not set, a GPU, or
/// else the CPU. It has two in-order queues and a buffer. Only release() releases them, because
/// commands may never end.
struct bare_device {
    explicit bare_device(std::size_t buffer_size) {
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
        other_queue = clCreateCommandQueue(context, id, 0, &error);
        buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, buffer_size, nullptr, &error);
        expect("the code of creating the OpenCL objects", error, CL_SUCCESS);
    }

    void release() const {
        clReleaseMemObject(buffer);
        clReleaseCommandQueue(other_queue);
        clReleaseCommandQueue(queue);
        clReleaseContext(context);
    }

    bool is_cpu() const {
        cl_device_type type = 0;
        clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
        return (type & CL_DEVICE_TYPE_CPU) != 0;
    }

    cl_device_id id = nullptr;
    cl_context context = nullptr;
    cl_command_queue queue = nullptr;
    cl_command_queue other_queue = nullptr;
    cl_mem buffer = nullptr;
};

/// The status of a command's event by clGetTransferInfo.
inline cl_int status_told(cl_event event) {
    cl_int status = CL_QUEUED;
    expect("clGetTransferInfo", clGetTransferInfo(event, CL_TRANSFER_STATUS, sizeof(status), &status, nullptr),
           CL_SUCCESS);
    return status;
}

}  // namespace cldist_test
