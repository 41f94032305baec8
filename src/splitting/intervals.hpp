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

/// Ranges of equal length at regular distances: those that begin at `begin` + i0 * stride0 + i1 * stride1 + …, for each ik in
/// [0, countk). They may overlap. A count of 0 makes it empty, as does a length of 0.
struct Box {
    std::size_t begin = 0;
    std::size_t length = 0;
    std::vector<std::pair<std::size_t, std::size_t>> steps;  ///< stride in bytes, count; the innermost first

    bool operator==(const Box &) const = default;
};

/// A set of bytes, as sorted, disjoint ranges that don't touch.
class Intervals {
public:
    Intervals() = default;
    /// In any order; they may overlap, touch or be empty.
    Intervals(std::initializer_list<Interval> ranges) : Intervals(std::vector(ranges)) {}
    explicit Intervals(std::vector<Interval> ranges);
    explicit Intervals(const Box &box);

    [[nodiscard]] bool empty() const { return ranges_.empty(); }
    [[nodiscard]] std::size_t size() const { return ranges_.size(); }  ///< how many ranges
    [[nodiscard]] std::size_t bytes() const;
    [[nodiscard]] auto begin() const { return ranges_.begin(); }
    [[nodiscard]] auto end() const { return ranges_.end(); }

    /// Whether all of the bytes [begin, end) are in it; true for none.
    [[nodiscard]] bool contains(std::size_t begin, std::size_t end) const;
    [[nodiscard]] bool contains(const Intervals &other) const;
    [[nodiscard]] bool overlaps(const Intervals &other) const;

    void unite(std::size_t begin, std::size_t end);
    void unite(const Intervals &other);
    void intersect(const Intervals &other);
    void subtract(const Intervals &other);

    /// The fewest bytes that have to be added so that no more than `most` ranges are left (`most` > 0).
    void coarsen(std::size_t most);

    bool operator==(const Intervals &) const = default;

private:
    std::vector<Interval> ranges_;
};

/// The same bytes with as few steps as is seen at once; the smallest stride first, and no steps if it is empty.
Box normalised(const Box &box);

/// At most how many ranges the box has, from its steps alone; SIZE_MAX if they are not to be counted.
std::size_t ranges_of(const Box &box);

/// The same bytes as boxes without overlap: ranges that repeat regularly become one, and boxes that repeat regularly as well.
std::vector<Box> boxes(const Intervals &intervals);

}  // namespace cldist::splitting
