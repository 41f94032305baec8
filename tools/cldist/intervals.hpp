#pragma once

#include <vector>

namespace cldist::tool {

/// A period of time in microseconds.
struct Interval {
    double start;
    double end;

    bool operator==(const Interval &) const = default;
};

/// Disjoint intervals in the order of time.
using Intervals = std::vector<Interval>;

/// The union of the intervals, which may be in any order. Empty and reversed intervals are ignored.
[[nodiscard]] Intervals union_of(std::vector<Interval> intervals);

/// The times that are in both lists.
[[nodiscard]] Intervals intersection_of(const Intervals &a, const Intervals &b);

[[nodiscard]] double length_of(const Intervals &intervals);

}  // namespace cldist::tool
