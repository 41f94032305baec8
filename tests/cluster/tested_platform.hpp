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

/// PoCL's platform if there is one, otherwise the first platform, or null if there is none. (The
/// loader lists only the cluster platform if OCL_ICD_VENDORS is its folder.)
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

/// Skips the program if the platform is neither the cluster platform nor PoCL, or if the library
/// CLDIST_TEST_DRIVER cannot be opened. NVIDIA's driver (580) accepts arguments that the
/// specification forbids, and crashes. With CLDIST_TEST_ANY_DRIVER, every platform is tested.
inline void skip_without_pocl() {
    std::array<char, 64> name{};
    const char *const driver = std::getenv("CLDIST_TEST_DRIVER");
    const bool has_driver = driver == nullptr || dlopen(driver, RTLD_NOW | RTLD_LOCAL) != nullptr;
    const std::string_view platform = name_of(tested_platform(), name);
    if (has_driver &&
        (platform.empty() || platform == "cldist" || platform == "Portable Computing Language" ||
         std::getenv("CLDIST_TEST_ANY_DRIVER") != nullptr))
        return;
    std::puts("SKIP: tests of the platform: PoCL is not available");
    std::exit(77);
}

}  // namespace cluster_test
