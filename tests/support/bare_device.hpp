/// For tests with their own main(), without doctest: checks that continue after a failure, a
/// device, and a runner of cases.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

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

/// The first device of the type in CLDIST_TEST_DEVICE ("cpu" or "gpu"), with a context, two
/// in-order queues and a buffer. If the variable is not set: the first GPU, or the first CPU device
/// if there is no GPU. There is no destructor, because commands may never end; call release().
struct bare_device {
    explicit bare_device(std::size_t buffer_size) {
        cl_uint number = 0;
        cl_platform_id platforms[16];
        clGetPlatformIDs(16, platforms, &number);
        const char *wanted = std::getenv("CLDIST_TEST_DEVICE");
        for (const cl_device_type type : {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU}) {
            if (wanted != nullptr &&
                (std::string(wanted) == "gpu") != (type == CL_DEVICE_TYPE_GPU)) {
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

/// The status of a command, from clGetTransferInfo.
inline cl_int status_told(cl_event event) {
    cl_int status = CL_QUEUED;
    expect("clGetTransferInfo",
           clGetTransferInfo(event, CL_TRANSFER_STATUS, sizeof(status), &status, nullptr),
           CL_SUCCESS);
    return status;
}

/// Returns true if CLDIST_TEST_DEVICE requests a GPU.
inline bool wants_gpu() {
    const char *const wanted = std::getenv("CLDIST_TEST_DEVICE");
    return wanted != nullptr && std::string(wanted) == "gpu";
}

/// The device that clDistLocalDevice chooses for this process: a GPU if wants_gpu(), otherwise a
/// CPU device. Null if there is none.
inline cl_device_id local_device() {
    cl_uint number = 0;
    cl_platform_id platforms[16];
    clGetPlatformIDs(16, platforms, &number);
    const cl_device_type type = wants_gpu() ? CL_DEVICE_TYPE_GPU : CL_DEVICE_TYPE_CPU;
    for (cl_uint i = 0; i < number && i < 16; ++i) {
        cl_device_id device = nullptr;
        if (clDistLocalDevice(MPI_COMM_WORLD, platforms[i], type, &device) == CL_SUCCESS) {
            return device;
        }
    }
    return nullptr;
}

/// Runs the cases in all processes. Rank 0 prints the result of each case on rank 0.
inline void run_cases(const char *suite, int rank,
                      const std::vector<std::pair<const char *, std::function<void()>>> &cases) {
    for (const auto &[name, test] : cases) {
        const int before = failures;
        test();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            std::printf("%s %s: %s\n", failures == before ? "ok" : "FAILED", suite, name);
            std::fflush(stdout);
        }
    }
}

}  // namespace cldist_test
