#pragma once

#include <new>
#include <string>

#include "base/error_code.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "base/status.hpp"

namespace cldist {

/// Throws an Error in a child that was forked from a process with the library. Call it before any
/// other function of the library.
inline void refuse_forked_child() {
    if (in_forked_child())
        throw Error(
            CL_INVALID_OPERATION,
            "this process was forked from a process that uses the library, and can't use it");
}

/// Stores the message of the calling thread's last failed call.
void keep_error_message(const std::string &message) noexcept;
[[nodiscard]] const char *last_error_message() noexcept;

/// Runs the body of the C entry point `call`. Errors become codes only here.
template <typename Body>
cl_int at_boundary(const char *call, Body &&body) noexcept {
    try {
        refuse_forked_child();
        body();
        return CL_SUCCESS;
    } catch (const Error &error) {
        log_warning("{}: {}: {}", call, error.status().message, code_text(error.status().code));
        keep_error_message(error.status().message);
        return error.status().code;
    } catch (const std::bad_alloc &) {
        keep_error_message("host memory could not be allocated");
        return CL_OUT_OF_HOST_MEMORY;
    } catch (...) {
        keep_error_message("");
        return CL_OUT_OF_RESOURCES;
    }
}

}  // namespace cldist
