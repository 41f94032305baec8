#pragma once

#include <optional>
#include <string>

namespace cldist::tool {

/// The number of busy cores between two readings of /proc/stat, on a host with `cores` cores. Empty
/// if the texts can't be parsed. Pure.
[[nodiscard]] std::optional<double> busy_cores(const std::string &before, const std::string &after,
                                               double cores);

/// The warning that other programs use `busy` cores; empty if that is too little to matter. Pure.
[[nodiscard]] std::string load_warning(const std::string &host, double busy, double cores);

/// Sleeps briefly and returns load_warning(). All processes of the job must sleep meanwhile.
[[nodiscard]] std::string look_at_load();

}  // namespace cldist::tool
