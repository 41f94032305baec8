#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"

namespace cldist {

/// What a device exchanges bytes with, and which way. Messages go both ways alike.
enum class Route { same_host, other_host, from_file, to_file };
inline constexpr std::size_t route_count = 4;
/// "device to device, same host", …
[[nodiscard]] const char *name_of(Route route);
/// "same-host", …: the key in a profile.
[[nodiscard]] const char *key_of(Route route);
[[nodiscard]] constexpr Route message_route(bool same_host) { return same_host ? Route::same_host : Route::other_host; }

[[nodiscard]] constexpr bool is_file(Route route) { return route == Route::from_file || route == Route::to_file; }

/// "64 KiB", "100 B": in the largest unit of which they are a multiple.
[[nodiscard]] std::string size_text(std::size_t bytes);

/// One way to do a transfer. Both ends of a message take the same.
struct Way {
    Path path = Path::pinned;  ///< not automatic
    /// The range is mapped for the length of the command: always on path mapped, never on path pinned. On path pipelined
    /// the host then copies, else the device's queues do.
    bool maps = false;
    /// The message travels with its envelope, in one piece; then nothing below matters.
    bool whole = false;
    std::size_t block = 0;  ///< bytes; 0 on path pinned: all in one block
    unsigned depth = 1;     ///< blocks in flight at once

    bool operator==(const Way &) const = default;
};
/// "pipelined, 512 KiB × 3, mapped".
[[nodiscard]] std::string describe(const Way &way);

/// How long transfers took on one way.
struct Curve {
    struct Point {
        std::size_t size;  ///< bytes, at least 1
        double seconds;    ///< the median of several

        bool operator==(const Point &) const = default;
    };

    Way way;
    std::vector<Point> points;  ///< in the order of sizes; at least one

    /// What a transfer of `size` bytes is expected to take: in a straight line from point to point; below the first as
    /// long as that; beyond the last with the bandwidth that lies between the last two, or as long as the last if times fall there. Nothing if the way is not for this
    /// size: what goes whole has an end, and blocks are not larger than the message.
    [[nodiscard]] std::optional<double> expected_seconds(std::size_t size) const;

    bool operator==(const Curve &) const = default;
};

/// The largest message that travels with its envelope because a profile says so.
inline constexpr std::size_t largest_whole = std::size_t{1} << 20U;

/// The curve that expects the shortest time for `size` bytes (that of messages in one piece, if it expects hardly longer), and
/// the best of those on another path or (if there is none) of any other; null where no curve is for this size. A curve that
/// ends before others do is not asked beyond its end.
struct Ranking {
    const Curve *best = nullptr;
    const Curve *runner_up = nullptr;
};
[[nodiscard]] Ranking rank(const std::vector<Curve> &curves, std::size_t size);

/// Sizes that are treated alike: four classes an octave, from 1 KiB on.
inline constexpr std::size_t size_class_count = 128;
[[nodiscard]] std::size_t size_class(std::size_t size);
/// The smallest size of a class.
[[nodiscard]] std::size_t smallest_of_class(std::size_t size_class);

/// Which way to take, looked up in a table.
class Advice {
public:
    /// None.
    Advice() = default;
    /// The same for all sizes.
    explicit Advice(const Way &way) { ways_.fill(way); }
    /// The best of each size class, or what serves the class below where that takes hardly longer.
    explicit Advice(const std::vector<Curve> &curves);

    /// Nothing: the built-in choice.
    [[nodiscard]] const std::optional<Way> &way(std::size_t size) const { return ways_.at(size_class(size)); }
    /// For messages without envelope: the built-in choice in place of `whole`.
    [[nodiscard]] Advice without_envelopes() const;

private:
    std::array<std::optional<Way>, size_class_count> ways_{};
};
/// For each Route.
using AdviceForRoutes = std::array<std::optional<Advice>, route_count>;

/// What one end of the pipelines can do alone: the ceilings of what is built of them.
struct Ceiling {
    std::string what;         ///< "device to host memory", "MPI, same host", …
    double startup_seconds;   ///< fitted, as is …
    double seconds_per_byte;  ///< … this

    bool operator==(const Ceiling &) const = default;
};
/// The straight line through the points whose relative errors are smallest in sum of squares; neither number is negative.
[[nodiscard]] Ceiling fit(std::string what, const std::vector<Curve::Point> &points);

/// The measured numbers of a system that plans are chosen from; `cldist tune` makes them.
struct Profile {
    /// On what it was measured. A profile is for this only.
    struct System {
        std::string host;
        std::string device;  ///< CL_DEVICE_NAME
        std::string driver;  ///< CL_DRIVER_VERSION
        std::string mpi;     ///< name and version of the library
        bool operator==(const System &) const = default;
    };
    struct Measurement {
        std::string when;     ///< UTC
        std::string between;  ///< which hosts, or which folder
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
