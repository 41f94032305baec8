#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "pipeline/profile.hpp"

// What a profile says, in words. All pure.
namespace cldist::tool {

/// What the built-in choice depends on.
struct Here {
    bool host_memory = false;   ///< the device's memory is the host's
    unsigned file_threads = 2;  ///< that read a file at once
};

/// What the library does, by the same functions: with a profile's advice, or null, and what the user forces.
[[nodiscard]] Way way_taken(Route route, std::size_t size, const Here &here, const Advice *advice,
                            const Config &requested = {});

/// What is done with `size` bytes on a route.
struct Choice {
    Way way;                            ///< as it is done: blocks no larger than the message, …
    std::optional<double> seconds;      ///< expected; nothing without a profile
    std::optional<Way> runner_up = {};  ///< the best on another path
    std::optional<double> runner_up_seconds = {};
    std::optional<Ceiling> bound = {};  ///< the slowest of what the transfer is built of
};
/// `profile` may be null: the built-in choice.
[[nodiscard]] Choice choose(const Profile *profile, Route route, std::size_t size, const Here &here);

/// The slowest of what a transfer is built of, as far as it was measured.
[[nodiscard]] std::optional<Ceiling> bound_of(const std::vector<Ceiling> &ceilings, Route route, const Way &way,
                                              std::size_t size);

[[nodiscard]] constexpr double expected_of(const Ceiling &ceiling, std::size_t size) {
    return ceiling.startup_seconds + ceiling.seconds_per_byte * static_cast<double>(size);
}

/// The names of the ceilings.
[[nodiscard]] const char *transport_ceiling(Route route);
inline constexpr const char *to_host_ceiling = "device to host memory";
inline constexpr const char *to_device_ceiling = "host memory to device";

/// A table for each route that the profile (or null: nobody) has measured, or all: what `cldist tune --explain` prints.
/// What collectives of devices do, which no profile has a say in.
[[nodiscard]] std::string explain_collectives(const std::vector<std::size_t> &sizes);
[[nodiscard]] std::string explain_text(const Profile *profile, const std::vector<std::size_t> &sizes, const Here &here);

/// What `cldist tune` prints at its end: for the sizes measured what is chosen now, and what would be without the profile.
[[nodiscard]] std::string result_text(const Profile &profile, Route route, const Here &here);

/// What the plot shows.
[[nodiscard]] nlohmann::json plot_data(const Profile &profile, const Here &here);

/// "4M", "64k", "1000": bytes; nothing if it is none, or 0.
[[nodiscard]] std::optional<std::size_t> parse_size(const std::string &text);

/// From 1 KiB to 256 MiB.
[[nodiscard]] std::vector<std::size_t> usual_sizes();

/// The profile that results from measuring: what was not measured this time is as it was in `before`, if that is of the same
/// system.
[[nodiscard]] Profile merged(const Profile &measured, const Profile &before);

}  // namespace cldist::tool
