#pragma once

#include <fmt/core.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace examples {

/// Reports an error in the command line. All processes find the same error, so only one prints it.
[[noreturn]] inline void refuse(const std::string &problem) {
    throw std::invalid_argument(problem);
}

inline int number(const char *text, int least) {
    char *end;
    const long value = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > 1'000'000'000)
        refuse(fmt::format("'{}' is not a number of at least {}", text, least));
    return int(value);
}

}  // namespace examples
