#pragma once

#include <string_view>
#include <vector>

namespace cldist::tool {

/// Prints all settings, their values in an environment of "NAME=value" strings, and the source of
/// each value. Returns the exit status: 1 if a variable is invalid, otherwise 0.
int print_settings(const std::vector<std::string_view> &environment);

}  // namespace cldist::tool
