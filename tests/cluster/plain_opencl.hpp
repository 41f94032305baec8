/// For programs in plain OpenCL: calls that end the process with status 9 if they fail.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <CL/cl.h>

namespace cldist_test {

inline void check(cl_int code, const char *call) {
    if (code == CL_SUCCESS) return;
    std::fprintf(stderr, "UNEXPECTED: %s returned %d\n", call, code);
    std::_Exit(9);
}

/// The devices of the first platform.
inline std::vector<cl_device_id> all_devices() {
    cl_platform_id platform = nullptr;
    check(clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
    cl_uint count = 0;
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count), "clGetDeviceIDs");
    std::vector<cl_device_id> devices(count);
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
          "clGetDeviceIDs");
    return devices;
}

}  // namespace cldist_test
