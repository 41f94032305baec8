#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "pipeline/profile.hpp"
#include "schedule.hpp"

namespace cldist::tool {

/// For several sizes, the shortest of several times `once(size)` in seconds. Stops after the first
/// slow size.
template <typename Once>
[[nodiscard]] std::vector<Curve::Point> ceiling_points(std::size_t smallest, std::size_t largest,
                                                       Once once) {
    constexpr unsigned repeats = 15;
    std::vector<Curve::Point> points;
    for (std::size_t size = smallest; size <= largest; size *= 4) {
        double best = once(size);
        for (unsigned i = 1; i < repeats; ++i) best = std::min(best, once(size));
        points.push_back({size, best});
        if (best > longest_transfer / repeats) break;
    }
    return points;
}

}  // namespace cldist::tool
