#include "intervals.hpp"

#include <algorithm>
#include <numeric>

namespace cldist::tool {

Intervals union_of(std::vector<Interval> intervals) {
    std::ranges::sort(intervals, {}, &Interval::start);
    Intervals merged;
    for (const Interval &interval : intervals) {
        if (interval.end <= interval.start) continue;
        if (!merged.empty() && interval.start <= merged.back().end)
            merged.back().end = std::max(merged.back().end, interval.end);
        else
            merged.push_back(interval);
    }
    return merged;
}

Intervals intersection_of(const Intervals &a, const Intervals &b) {
    Intervals common;
    for (auto at = a.begin(), other = b.begin(); at != a.end() && other != b.end();) {
        const Interval both{std::max(at->start, other->start), std::min(at->end, other->end)};
        if (both.start < both.end) common.push_back(both);
        // The interval that ends first does not intersect the rest of the other list.
        if (at->end < other->end)
            ++at;
        else
            ++other;
    }
    return common;
}

double length_of(const Intervals &intervals) {
    return std::accumulate(
        intervals.begin(), intervals.end(), 0.0,
        [](double sum, const Interval &one) { return sum + (one.end - one.start); });
}

}  // namespace cldist::tool
