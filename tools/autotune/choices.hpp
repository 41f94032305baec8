#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "pipeline/profile.hpp"

// The contents of a profile, in words. All functions are pure.
namespace cldist::tool {

/// The facts that the built-in choice depends on.
struct Here {
    bool host_memory = false;   ///< device memory is host memory
    unsigned file_threads = 2;  ///< threads that read a file at once
};

/// The library's choice, by the library's own functions, with a profile's advice (or null) and the
/// user's forced settings.
[[nodiscard]] Way way_taken(Route route, std::size_t size, const Here &here, const Advice *advice,
                            const Config &requested = {});

/// The choice for `size` bytes on a route.
struct Choice {
    /// Block size and depth are limited to what `size` needs.
    Way way;
    std::optional<double> seconds;      ///< the expected time; empty without a profile
    std::optional<Way> runner_up = {};  ///< the best way on another path
    std::optional<double> runner_up_seconds = {};
    std::optional<Ceiling> bound = {};  ///< the slowest component of the transfer
};
/// The built-in choice if `profile` is null.
[[nodiscard]] Choice choose(const Profile *profile, Route route, std::size_t size,
                            const Here &here);

/// The slowest measured component of a transfer.
[[nodiscard]] std::optional<Ceiling> bound_of(const std::vector<Ceiling> &ceilings, Route route,
                                              const Way &way, std::size_t size);

[[nodiscard]] constexpr double expected_of(const Ceiling &ceiling, std::size_t size) {
    return ceiling.startup_seconds + ceiling.seconds_per_byte * static_cast<double>(size);
}

/// The names of the ceilings.
[[nodiscard]] const char *transport_ceiling(Route route);
inline constexpr const char *to_host_ceiling = "device to host memory";
inline constexpr const char *to_device_ceiling = "host memory to device";

/// The algorithms of device collectives, which do not depend on the profile.
[[nodiscard]] std::string explain_collectives(const std::vector<std::size_t> &sizes);
[[nodiscard]] std::string explain_text(const Profile *profile,
                                       const std::vector<std::size_t> &sizes, const Here &here);

/// The text that `cldist tune` prints at its end: the new and the built-in choice for each size.
[[nodiscard]] std::string result_text(const Profile &profile, Route route, const Here &here);

/// The data of the plot.
[[nodiscard]] nlohmann::json plot_data(const Profile &profile, const Here &here);

/// Parses "4M", "64k" or "1000" as bytes; empty if the text is no size or 0.
[[nodiscard]] std::optional<std::size_t> parse_size(const std::string &text);

/// Sizes from 1 KiB to 256 MiB.
[[nodiscard]] std::vector<std::size_t> usual_sizes();

/// The profile to save after a measurement. Routes that were not measured keep their data from
/// `before`, if `before` is a profile of the same system.
[[nodiscard]] Profile merged(const Profile &measured, const Profile &before);

}  // namespace cldist::tool
