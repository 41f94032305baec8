/// The platform of tests that run on the cluster platform as well as natively.
#pragma once

#include <CL/cl.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cluster_test {

/// The first one; natively PoCL's, if it is there: NVIDIA's driver (580) accepts what the specification refuses, and crashes. Null
/// where there is none.
inline cl_platform_id tested_platform() {
    std::array<cl_platform_id, 16> platforms{};
    cl_uint count = 0;
    clGetPlatformIDs(static_cast<cl_uint>(platforms.size()), platforms.data(), &count);
    const auto is_pocl = [](cl_platform_id platform) {
        std::array<char, 64> name{};
        return platform != nullptr &&
               clGetPlatformInfo(platform, CL_PLATFORM_NAME, name.size() - 1, name.data(), nullptr) == CL_SUCCESS &&
               std::string_view(name.data()) == "Portable Computing Language";
    };
    const auto *const pocl = std::find_if(platforms.begin(), platforms.end(), is_pocl);
    return pocl != platforms.end() ? *pocl : platforms.front();
}

}  // namespace cluster_test
