#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace cldist::splitting {

/// Bytes [begin, end).
struct Interval {
    std::size_t begin = 0;
    std::size_t end = 0;

    bool operator==(const Interval &) const = default;
};

/// Ranges of equal length at regular distances. They begin at `begin` + i0 * stride0 + i1 * stride1
/// + …, for each ik in [0, countk). They may overlap. A box with a count or length of 0 is empty.
struct Box {
    std::size_t begin = 0;
    std::size_t length = 0;
    /// Stride in bytes, count; innermost first.
    std::vector<std::pair<std::size_t, std::size_t>> steps;
};

/// A set of bytes: sorted, disjoint ranges that don't touch.
class Intervals {
public:
    Intervals() = default;
    /// The ranges may have any order, overlap, touch or be empty.
    Intervals(std::initializer_list<Interval> ranges) : Intervals(std::vector(ranges)) {}
    explicit Intervals(std::vector<Interval> ranges);
    explicit Intervals(const Box &box);

    [[nodiscard]] bool empty() const { return ranges_.empty(); }
    [[nodiscard]] std::size_t size() const { return ranges_.size(); }  ///< number of ranges
    [[nodiscard]] std::size_t bytes() const;
    [[nodiscard]] auto begin() const { return ranges_.begin(); }
    [[nodiscard]] auto end() const { return ranges_.end(); }

    void unite(const Intervals &other);
    void intersect(const Intervals &other);
    void subtract(const Intervals &other);

    bool operator==(const Intervals &) const = default;

private:
    std::vector<Interval> ranges_;
};

[[nodiscard]] inline Intervals without(Intervals all, const Intervals &some) {
    all.subtract(some);
    return all;
}

/// The same bytes with fewer steps if that is simple. The smallest stride is first. An empty box
/// has no steps.
Box normalised(const Box &box);

/// An upper limit of the number of ranges, computed from the steps alone. SIZE_MAX if it overflows.
std::size_t ranges_of(const Box &box);

}  // namespace cldist::splitting
