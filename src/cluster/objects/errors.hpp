#pragma once

#include <cstddef>

#include <fmt/format.h>

#include "base/status.hpp"

namespace cldist::cluster {

template <typename... Args>
[[noreturn]] void fail(cl_int code, fmt::format_string<Args...> format, Args &&...args) {
    throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}
/// Throws an Error with `code` unless `right`.
template <typename... Args>
void require(bool right, cl_int code, fmt::format_string<Args...> format, Args &&...args) {
    if (!right) fail(code, format, std::forward<Args>(args)...);
}

/// This process has no memory for a command's bytes. Other processes may have enqueued the command.
class OutOfMemory : public Error {
public:
    explicit OutOfMemory(std::size_t size)
        : Error(CL_OUT_OF_HOST_MEMORY,
                fmt::format("the process has no memory for {} bytes", size)) {}
};

}  // namespace cldist::cluster
