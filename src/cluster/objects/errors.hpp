#pragma once

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

}  // namespace cldist::cluster
