/// The platform for tests that run on the cluster platform as well as natively.
#pragma once

#include <CL/cl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace cluster_test {

inline std::string_view name_of(cl_platform_id platform, std::array<char, 64> &name) {
    if (platform == nullptr || clGetPlatformInfo(platform, CL_PLATFORM_NAME, name.size() - 1,
                                                 name.data(), nullptr) != CL_SUCCESS)
        return {};
    return name.data();
}

/// The first platform; natively PoCL's if it exists. Null if there is no platform.
inline cl_platform_id tested_platform() {
    std::array<cl_platform_id, 16> platforms{};
    cl_uint count = 0;
    clGetPlatformIDs(static_cast<cl_uint>(platforms.size()), platforms.data(), &count);
    std::array<char, 64> name{};
    const auto *const pocl =
        std::find_if(platforms.begin(), platforms.end(), [&](cl_platform_id platform) {
            return name_of(platform, name) == "Portable Computing Language";
        });
    return pocl != platforms.end() ? *pocl : platforms.front();
}

/// Skips the program if it would run on a native platform other than PoCL, or if its driver is
/// missing. NVIDIA's driver (580) accepts arguments that the specification refuses, and crashes.
inline void skip_without_pocl() {
    std::array<char, 64> name{};
    const char *const driver = std::getenv("CLDIST_TEST_DRIVER");
    const bool has_driver = driver == nullptr || dlopen(driver, RTLD_NOW | RTLD_LOCAL) != nullptr;
    const std::string_view platform = name_of(tested_platform(), name);
    if (has_driver &&
        (platform.empty() || platform == "cldist" || platform == "Portable Computing Language"))
        return;
    std::puts("SKIP: tests of the platform: PoCL is not available");
    std::exit(77);
}

}  // namespace cluster_test
