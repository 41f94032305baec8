#include "pipeline/profile.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace cldist {
namespace {

struct RouteNames {
    const char *key;
    const char *name;
};
constexpr std::array<RouteNames, route_count> route_names{
    {{"same-host", "device to device, same host"},
     {"other-host", "device to device, other host"},
     {"from-file", "file to device"},
     {"to-file", "device to file"}}};

// log2 of the first size that has four classes per octave.
constexpr unsigned first_octave = 10;

// A smaller difference is noise.
constexpr double nearly_equal = 1.03;

bool is_for(const Way &way, std::size_t size) {
    if (way.eager) return size <= largest_eager;
    // On path mapped, a message that is smaller than a block is one block.
    return way.path == Path::staged || way.path == Path::mapped || way.block < size;
}

}  // namespace

const char *name_of(Route route) { return route_names.at(static_cast<std::size_t>(route)).name; }
const char *key_of(Route route) { return route_names.at(static_cast<std::size_t>(route)).key; }

std::string size_text(std::size_t bytes) {
    for (const auto &[shift, unit] :
         {std::pair{30U, "GiB"}, std::pair{20U, "MiB"}, std::pair{10U, "KiB"}})
        if (bytes != 0 && bytes % (std::size_t{1} << shift) == 0)
            return fmt::format("{} {}", bytes >> shift, unit);
    return fmt::format("{} B", bytes);
}

std::string describe(const Way &way) {
    if (way.eager) return way.maps ? "whole, mapped" : "whole";
    if (way.block == 0) return name_of(way.path);
    return fmt::format("{}, {} x {}{}", name_of(way.path), size_text(way.block), way.depth,
                       way.maps && way.path != Path::mapped ? ", mapped" : "");
}

std::optional<double> Curve::expected_seconds(std::size_t size) const {
    if (points.empty() || !is_for(way, size)) return std::nullopt;
    if (size <= points.front().size || points.size() == 1) {
        // With one point, larger sizes are assumed to take proportionally longer.
        const Point &only = points.front();
        return size <= only.size
                   ? only.seconds
                   : only.seconds * static_cast<double>(size) / static_cast<double>(only.size);
    }
    auto upper =
        std::lower_bound(points.begin(), points.end(), size,
                         [](const Point &point, std::size_t value) { return point.size < value; });
    const bool beyond = upper == points.end();
    if (beyond) --upper;
    const Point &b = *upper;
    const Point &a = *(upper - 1);
    double slope = (b.seconds - a.seconds) / static_cast<double>(b.size - a.size);
    if (beyond) slope = std::max(0.0, slope);  // times do not decrease without limit
    const Point &from = beyond ? b : a;
    return from.seconds + slope * static_cast<double>(size - from.size);
}

Ranking rank(const std::vector<Curve> &curves, std::size_t size) {
    // Beyond its last point a curve is an extrapolation. It must not win over a measured curve.
    std::size_t reach = 0;
    for (const Curve &curve : curves)
        reach = std::max(reach, curve.points.empty() ? 0 : curve.points.back().size);
    const auto expected_seconds = [&](const Curve &curve) -> std::optional<double> {
        if (curve.points.empty() ||
            (curve.points.back().size < reach && curve.points.back().size < size))
            return {};
        return curve.expected_seconds(size);
    };
    Ranking ranking;
    double best = 0;
    for (const Curve &curve : curves) {
        const auto seconds = expected_seconds(curve);
        if (!seconds || (ranking.best != nullptr && *seconds >= best)) continue;
        ranking.best = &curve;
        best = *seconds;
    }
    // An eager message needs the least work. A slightly longer measured time is noise.
    for (const Curve &curve : curves) {
        const auto seconds = expected_seconds(curve);
        if (seconds && curve.way.eager && ranking.best->way.maps == curve.way.maps &&
            *seconds <= nearly_equal * best)
            ranking.best = &curve;
    }
    double second = 0;
    const auto kind = [](const Way &way) { return std::tuple(way.path, way.maps, way.eager); };
    for (const bool other_kind : {true, false}) {
        if (ranking.best == nullptr || ranking.runner_up != nullptr) break;
        for (const Curve &curve : curves) {
            const auto seconds = expected_seconds(curve);
            if (!seconds || &curve == ranking.best) continue;
            if (other_kind && kind(curve.way) == kind(ranking.best->way)) continue;
            if (ranking.runner_up != nullptr && *seconds >= second) continue;
            ranking.runner_up = &curve;
            second = *seconds;
        }
    }
    return ranking;
}

std::size_t size_class(std::size_t size) {
    if (size < std::size_t{1} << first_octave) return 0;
    const auto octave = static_cast<unsigned>(std::bit_width(size) - 1);
    const std::size_t quarter = (size >> (octave - 2)) & 3U;
    return std::min<std::size_t>(std::size_t{4} * (octave - first_octave) + quarter + 1,
                                 size_class_count - 1);
}

std::size_t smallest_of_class(std::size_t size_class) {
    if (size_class == 0) return 1;
    const std::size_t octave = (size_class - 1) / 4 + first_octave;
    return (4 + (size_class - 1) % 4) << (octave - 2);
}

Advice::Advice(const std::vector<Curve> &curves) {
    // The way of the next smaller class is kept unless another way is clearly faster.
    const Curve *before = nullptr;
    for (std::size_t i = 0; i < ways_.size(); ++i) {
        const std::size_t size = smallest_of_class(i);
        const Curve *best = rank(curves, size).best;
        if (best == nullptr) continue;
        const auto stays = before != nullptr ? before->expected_seconds(size) : std::nullopt;
        if (stays && *stays <= nearly_equal * *best->expected_seconds(size) &&
            before->points.back().size >= size)
            best = before;
        ways_.at(i) = best->way;
        before = best;
    }
}

Advice Advice::without_headers() const {
    Advice rest = *this;
    for (std::optional<Way> &way : rest.ways_)
        if (way && way->eager) way.reset();
    return rest;
}

Ceiling fit(std::string what, const std::vector<Curve::Point> &points) {
    // Least squares of (a + b x - y) / y.
    double w = 0;
    double wx = 0;
    double wxx = 0;
    double wy = 0;
    double wxy = 0;
    for (const Curve::Point &point : points) {
        const auto x = static_cast<double>(point.size);
        const double y = point.seconds;
        const double weight = 1 / (y * y);
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    const double determinant = w * wxx - wx * wx;
    double a = determinant > 0 ? (wy * wxx - wx * wxy) / determinant : 0;
    double b = determinant > 0 ? (w * wxy - wx * wy) / determinant : (wx > 0 ? wy / wx : 0);
    if (a < 0) {
        a = 0;
        b = wxx > 0 ? wxy / wxx : 0;
    } else if (b < 0) {
        a = w > 0 ? wy / w : 0;
        b = 0;
    }
    return {std::move(what), a, b};
}

AdviceForRoutes Profile::advice() const {
    AdviceForRoutes result;
    for (std::size_t i = 0; i < route_count; ++i)
        if (routes.at(i)) result.at(i).emplace(routes.at(i)->curves);
    return result;
}

}  // namespace cldist
