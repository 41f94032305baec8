#pragma once

#include <new>

#include "base/log.hpp"
#include "base/status.hpp"

namespace cldist {

/// Runs the body of a C entry point: the one place where errors become codes. `call` is its name.
template <typename Body>
cl_int at_boundary(const char *call, Body &&body) noexcept {
    try {
        body();
        return CL_SUCCESS;
    } catch (const Error &error) {
        log_warning("{}: {} ({})", call, error.status().message, error.status().code);
        return error.status().code;
    } catch (const std::bad_alloc &) {
        return CL_OUT_OF_HOST_MEMORY;
    } catch (...) {
        return CL_OUT_OF_RESOURCES;
    }
}

}  // namespace cldist
