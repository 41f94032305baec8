#pragma once

#include <string>

#include <CL/cl.h>

namespace cldist {

[[nodiscard]] inline std::string build_log(cl_program program, cl_device_id device) {
    std::size_t size = 0;
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
    std::string text(size, '\0');
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, text.data(), nullptr);
    return text.substr(0, text.find('\0'));
}

}  // namespace cldist
