#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cldist::splitting {

/// The speed of a device in work-items per second: the median of its last sub-ranges. A single slow
/// sub-range does not matter.
class MedianRate {
public:
    /// Adds the time of a sub-range with this many work-items. A time of 0 is ignored.
    void add(double work_items, double seconds);
    /// 0 without measurements.
    [[nodiscard]] double median() const;
    void clear() { last_.clear(); }

private:
    static constexpr std::size_t most = 15;
    std::vector<double> last_;  // oldest first
};

/// Computes shares with which devices of these speeds end at the same time. Their sum is 1. Returns
/// `before` if a rate is unknown (not positive and finite), or if launches would become only
/// slightly faster: a change moves bytes, and the next measurement might reverse it.
std::vector<double> shares_by_rates(std::span<const double> before, std::span<const double> rates);

/// Shares of launches, adapted to measured speeds. All kinds of launches have the same shares.
/// Different shares would move the bytes that two kernels both use between their launches. The same
/// calls give the same shares in every process.
class AdaptedShares {
public:
    explicit AdaptedShares(std::vector<double> first) : shares_(std::move(first)) {}

    [[nodiscard]] const std::vector<double> &shares() const { return shares_; }
    /// The number of changes.
    [[nodiscard]] unsigned version() const { return version_; }
    /// Adds a kind of launches and returns its number.
    std::size_t add_kind();
    [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }
    /// Call it after each launch. Returns true if adapt() should be called: after the 4th, 8th,
    /// 16th, … launch of the kind, and later after each 1024th.
    [[nodiscard]] bool count_launch(std::size_t kind, double work_items);
    /// Adapts the shares. `rates` contains the rates since the last call: those of all devices for
    /// the first kind, then for the second kind, and so on. The last kinds may be missing. A rate
    /// is 0 if a device has not ended a sub-range. A device without known rate for a kind counts by
    /// its share. Returns true if the shares have changed.
    bool adapt(std::span<const double> rates);

private:
    struct Kind {
        std::vector<double> rates;  // work-items per second; 0: unknown
        double work_items;          // each adapt() halves the old ones
        std::uint64_t launches;
    };

    std::vector<double> shares_;
    unsigned version_ = 0;
    std::vector<Kind> kinds_;
};

}  // namespace cldist::splitting
