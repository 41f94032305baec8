#pragma once

#include <string_view>
#include <vector>

namespace cldist::tool {

/// Prints all settings, their values in an environment of "NAME=value" strings, and where each value comes from. Gives the
/// exit status: 1 if something in the environment is not taken, else 0.
int print_settings(const std::vector<std::string_view> &environment);

}  // namespace cldist::tool
