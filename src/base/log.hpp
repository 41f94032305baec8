#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/config.hpp"

namespace cldist {

void set_log_level(LogLevel level);
[[nodiscard]] bool log_enabled(LogLevel level);

/// Sets the rank in MPI_COMM_WORLD with which lines begin. With -1 (the default), they have no
/// rank.
void set_log_rank(int rank);

/// Writes the lines of `text` to standard error in one system call, each after the prefix
/// "cldist[rank]: ".
void log_line(std::string_view text);

#define CLDIST_LOG_FUNCTION(level)                                         \
    template <typename... Args>                                            \
    void log_##level(fmt::format_string<Args...> format, Args &&...args) { \
        if (log_enabled(LogLevel::level))                                  \
            log_line(fmt::format(format, std::forward<Args>(args)...));    \
    }
CLDIST_LOG_FUNCTION(error)
CLDIST_LOG_FUNCTION(warning)
CLDIST_LOG_FUNCTION(info)
CLDIST_LOG_FUNCTION(debug)
#undef CLDIST_LOG_FUNCTION

}  // namespace cldist
