#pragma once

#include <optional>
#include <string>

namespace cldist::tool {

/// How many cores were busy between two readings of /proc/stat on a host with so many cores. Nothing if the texts are none.
/// Pure.
[[nodiscard]] std::optional<double> busy_cores(const std::string &before, const std::string &after, double cores);

/// What to warn of if others use so many cores; empty if they do not disturb. Pure.
[[nodiscard]] std::string load_warning(const std::string &host, double busy, double cores);

/// Sleeps for a moment, in which all processes of the job must sleep, and returns what to warn of, or an empty text.
[[nodiscard]] std::string look_at_load();

}  // namespace cldist::tool
