#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/config.hpp"

namespace cldist {

void set_log_level(LogLevel level);
[[nodiscard]] bool log_enabled(LogLevel level);

/// The rank in MPI_COMM_WORLD that lines begin with; -1 (the default) leaves it out.
void set_log_rank(int rank);

/// Writes each line of `text`, behind "cldist[rank]: ", to standard error in one piece.
void log_line(std::string_view text);

#define CLDIST_LOG_FUNCTION(level)                                                                    \
    template <typename... Args>                                                                       \
    void log_##level(fmt::format_string<Args...> format, Args &&...args) {                            \
        if (log_enabled(LogLevel::level)) log_line(fmt::format(format, std::forward<Args>(args)...)); \
    }
CLDIST_LOG_FUNCTION(error)
CLDIST_LOG_FUNCTION(warning)
CLDIST_LOG_FUNCTION(info)
CLDIST_LOG_FUNCTION(debug)
#undef CLDIST_LOG_FUNCTION

}  // namespace cldist
