#pragma once

#include <new>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "ocl/query.hpp"

namespace cldist::collectives {

/// Runs an entry point. Logs an Error and returns its code.
template <typename Body>
cl_int at_boundary(const char *call, Body &&body) noexcept {
    try {
        body();
        return CL_SUCCESS;
    } catch (const Error &error) {
        log_warning("{}: {}: {}", call, error.status().message, code_text(error.status().code));
        return error.status().code;
    } catch (const std::bad_alloc &) {
        return CL_OUT_OF_HOST_MEMORY;
    } catch (...) {
        return CL_OUT_OF_RESOURCES;
    }
}

/// The platform's function with that name. Null if it has none.
template <typename Function>
Function function_of(cl_device_id device, const char *name) {
    const auto platform = query<cl_platform_id>(device, CL_DEVICE_PLATFORM).value_or(nullptr);
    return reinterpret_cast<Function>(clGetExtensionFunctionAddressForPlatform(platform, name));
}

}  // namespace cldist::collectives
