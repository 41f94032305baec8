#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"

namespace cldist::tool {

/// Like cldist::read_config(), but also checks the settings that only the command and the cluster
/// platform parse: CLDIST_DEVICES and CLDIST_HOST_WRAP.
Config read_settings(const std::vector<std::string_view> &environment,
                     std::vector<std::string> &complaints);

/// The "NAME=value" strings of this process's environment.
[[nodiscard]] std::vector<std::string_view> environment_entries();

/// Prints all settings, their values in an environment of "NAME=value" strings, and the source of
/// each value. Returns the exit status: 1 if a variable is invalid, otherwise 0.
int print_settings(const std::vector<std::string_view> &environment);

}  // namespace cldist::tool
