#pragma once

#include <vector>

namespace cldist::tool {

/// A stretch of time, in microseconds.
struct Interval {
    double start;
    double end;

    bool operator==(const Interval &) const = default;
};

/// Disjoint intervals in the order of time.
using Intervals = std::vector<Interval>;

/// The times that lie in at least one of the intervals, which may be in any order. Empty ones and reversed ones don't count.
[[nodiscard]] Intervals union_of(std::vector<Interval> intervals);

/// The times that lie in both.
[[nodiscard]] Intervals intersection_of(const Intervals &a, const Intervals &b);

[[nodiscard]] double length_of(const Intervals &intervals);

}  // namespace cldist::tool
