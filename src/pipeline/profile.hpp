#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"

namespace cldist {

/// The far end of a transfer and, for files, the direction. Messages use the same route in both
/// directions.
enum class Route { same_host, other_host, from_file, to_file };
inline constexpr std::size_t route_count = 4;
/// For example "device to device, same host".
[[nodiscard]] const char *name_of(Route route);
/// The key in a profile, for example "same-host".
[[nodiscard]] const char *key_of(Route route);
[[nodiscard]] constexpr Route message_route(bool same_host) {
    return same_host ? Route::same_host : Route::other_host;
}

[[nodiscard]] constexpr bool is_file(Route route) {
    return route == Route::from_file || route == Route::to_file;
}

/// For example "64 KiB" or "100 B", in the largest unit that divides the number.
[[nodiscard]] std::string size_text(std::size_t bytes);

/// One way to do a transfer. Both ends of a message take the same way.
struct Way {
    Path path = Path::staged;  ///< never automatic
    /// The range is mapped while the command runs: always on path mapped, never on path staged. On
    /// the other paths, the host then copies the bytes. Otherwise the device's queues copy them.
    bool maps = false;
    /// The message travels with its header in one piece. Profiles and reports call this "whole".
    /// The members below then have no effect.
    bool eager = false;
    std::size_t block = 0;  ///< bytes; 0 on path staged: one block
    unsigned depth = 1;     ///< blocks in flight

    bool operator==(const Way &) const = default;
};
/// For example "chunked, 512 KiB x 3, mapped".
[[nodiscard]] std::string describe(const Way &way);

/// The measured times of transfers on one way.
struct Curve {
    struct Point {
        std::size_t size;  ///< bytes, at least 1
        double seconds;    ///< the median of several measurements

        bool operator==(const Point &) const = default;
    };

    Way way;
    std::vector<Point> points;  ///< in ascending order of sizes; at least one

    /// The expected time of a transfer of `size` bytes. It is linear between points. Below the
    /// first point it is the time of that point. Beyond the last point it continues with the slope
    /// of the last two, or stays constant if times fall there. With a single point, it grows in
    /// proportion to the size. Returns nothing if the way does not apply to this size: eager
    /// messages have a limit, and blocks are not larger than the message.
    [[nodiscard]] std::optional<double> expected_seconds(std::size_t size) const;

    bool operator==(const Curve &) const = default;
};

/// The largest message that a profile can send with its header.
inline constexpr std::size_t largest_eager = std::size_t{1} << 20U;

/// `best` is the curve with the shortest expected time for `size` bytes. An eager curve wins if it
/// expects only slightly more. `runner_up` is the best curve of another kind (path, maps, eager),
/// or else of the same kind. Null if no curve applies. A curve that ends before other curves is
/// ignored beyond its end.
struct Ranking {
    const Curve *best = nullptr;
    const Curve *runner_up = nullptr;
};
[[nodiscard]] Ranking rank(const std::vector<Curve> &curves, std::size_t size);

/// Classes of sizes: four per octave from 1 KiB on, and one for smaller sizes.
inline constexpr std::size_t size_class_count = 128;
[[nodiscard]] std::size_t size_class(std::size_t size);
[[nodiscard]] std::size_t smallest_of_class(std::size_t size_class);

/// A table with the best way for each size class.
class Advice {
public:
    /// An empty table.
    Advice() = default;
    /// The same way for all sizes.
    explicit Advice(const Way &way) { ways_.fill(way); }
    /// The best way of each size class. A class keeps the way of the next smaller class if it is
    /// only slightly slower.
    explicit Advice(const std::vector<Curve> &curves);

    /// Returns nothing if the built-in choice applies.
    [[nodiscard]] const std::optional<Way> &way(std::size_t size) const {
        return ways_.at(size_class(size));
    }
    /// The advice for plain messages: the built-in choice replaces eager ways.
    [[nodiscard]] Advice without_headers() const;

private:
    std::array<std::optional<Way>, size_class_count> ways_{};
};
/// One per Route.
using AdviceForRoutes = std::array<std::optional<Advice>, route_count>;

/// The speed of a single stage, which limits all transfers that use this stage.
struct Ceiling {
    std::string what;         ///< for example "device to host memory" or "MPI, same host"
    double startup_seconds;   ///< fitted
    double seconds_per_byte;  ///< fitted

    bool operator==(const Ceiling &) const = default;
};
/// Fits a line by least squares of the relative errors. Neither number is negative.
[[nodiscard]] Ceiling fit(std::string what, const std::vector<Curve::Point> &points);

/// The measurements of a system from which plans are chosen. `cldist tune` creates them.
struct Profile {
    /// The measured system. A profile applies only to this system.
    struct System {
        std::string host;
        std::string device;  ///< CL_DEVICE_NAME
        std::string driver;  ///< CL_DRIVER_VERSION
        std::string mpi;     ///< name and version of the library; empty in a program without MPI
        bool operator==(const System &) const = default;
    };
    struct Measurement {
        std::string when;     ///< UTC
        std::string between;  ///< the hosts or the folder
        std::vector<Curve> curves;
        bool operator==(const Measurement &) const = default;
    };

    System system;
    std::array<std::optional<Measurement>, route_count> routes{};
    std::vector<Ceiling> ceilings{};

    [[nodiscard]] AdviceForRoutes advice() const;

    bool operator==(const Profile &) const = default;
};

}  // namespace cldist
