#include "splitting/intervals.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace cldist::splitting {

namespace {

/// Merges ranges that touch and removes empty ranges. They must be sorted by their begin.
void merge(std::vector<Interval> &ranges) {
    std::size_t kept = 0;
    for (const Interval &range : ranges) {
        if (range.begin >= range.end) continue;
        if (kept > 0 && range.begin <= ranges[kept - 1].end) {
            ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
        } else {
            ranges[kept++] = range;
        }
    }
    ranges.resize(kept);
}

}  // namespace

Intervals::Intervals(std::vector<Interval> ranges) : ranges_(std::move(ranges)) {
    if (!std::ranges::is_sorted(ranges_, {}, &Interval::begin))
        std::ranges::sort(ranges_, {}, &Interval::begin);
    merge(ranges_);
}

Intervals::Intervals(const Box &box) {
    const Box least = normalised(box);
    if (least.length == 0) return;
    std::vector<Interval> ranges{{least.begin, least.begin + least.length}};
    for (const auto &[stride, count] : least.steps) {
        const std::size_t before = ranges.size();
        ranges.reserve(before * count);
        for (std::size_t i = 1; i < count; ++i) {
            for (std::size_t k = 0; k < before; ++k) {
                ranges.push_back({ranges[k].begin + i * stride, ranges[k].end + i * stride});
            }
        }
    }
    *this = Intervals(std::move(ranges));
}

std::size_t Intervals::bytes() const {
    std::size_t sum = 0;
    for (const Interval &range : ranges_) sum += range.end - range.begin;
    return sum;
}

void Intervals::unite(const Intervals &other) {
    if (other.empty()) return;
    if (empty() || ranges_.back().end < other.ranges_.front().begin) {
        ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
        return;
    }
    std::vector<Interval> all;
    all.reserve(ranges_.size() + other.ranges_.size());
    std::ranges::merge(ranges_, other.ranges_, std::back_inserter(all), {}, &Interval::begin,
                       &Interval::begin);
    merge(all);
    ranges_ = std::move(all);
}

void Intervals::intersect(const Intervals &other) {
    std::vector<Interval> both;
    auto a = ranges_.begin();
    auto b = other.ranges_.begin();
    while (a != ranges_.end() && b != other.ranges_.end()) {
        const Interval common{std::max(a->begin, b->begin), std::min(a->end, b->end)};
        if (common.begin < common.end) both.push_back(common);
        if (a->end < b->end) {
            ++a;
        } else {
            ++b;
        }
    }
    ranges_ = std::move(both);
}

void Intervals::subtract(const Intervals &other) {
    std::vector<Interval> rest;
    auto b = other.ranges_.begin();
    for (Interval range : ranges_) {
        while (b != other.ranges_.end() && b->end <= range.begin) ++b;
        for (auto cut = b; cut != other.ranges_.end() && cut->begin < range.end; ++cut) {
            if (range.begin < cut->begin) rest.push_back({range.begin, cut->begin});
            range.begin = cut->end;
        }
        if (range.begin < range.end) rest.push_back(range);
    }
    ranges_ = std::move(rest);
}

Box normalised(const Box &box) {
    Box least{box.begin, box.length, {}};
    auto steps = box.steps;
    std::ranges::sort(steps);
    for (const auto &[stride, count] : steps) {
        if (count == 0) least.length = 0;
        if (count <= 1 || stride == 0 || least.length == 0) continue;
        if (least.steps.empty() && stride <= least.length) {
            least.length += stride * (count - 1);  // the ranges touch
        } else if (!least.steps.empty() && stride % least.steps.back().first == 0 &&
                   stride / least.steps.back().first <= least.steps.back().second) {
            least.steps.back().second += stride / least.steps.back().first * (count - 1);
        } else {
            least.steps.emplace_back(stride, count);
        }
    }
    if (least.length == 0) least.steps.clear();
    return least;
}

std::size_t ranges_of(const Box &box) {
    const Box least = normalised(box);
    std::size_t ranges = least.length == 0 ? 0 : 1;
    for (const auto &step : least.steps) {
        if (ranges > SIZE_MAX / step.second) return SIZE_MAX;
        ranges *= step.second;
    }
    return ranges;
}

}  // namespace cldist::splitting
