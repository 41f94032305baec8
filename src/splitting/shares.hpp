#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cldist::splitting {

/// How fast a device does parts of launches, in work-items per second: the median of the last ones, so that one that took long by
/// chance does not count.
class MedianRate {
public:
    /// A part of so many work-items took so long. One that took no time says nothing.
    void add(double work_items, double seconds);
    /// 0 if nothing was added.
    [[nodiscard]] double median() const;
    void clear() { last_.clear(); }

private:
    static constexpr std::size_t most = 15;
    std::vector<double> last_;  // the oldest first
};

/// Shares with which devices of such rates end together: their sum is 1. Gives `before` as it is if a rate is none (0, negative or no
/// number), or if launches would take hardly less time: bytes would move, and the next measurement might say the opposite.
std::vector<double> shares_by_rates(std::span<const double> before, std::span<const double> rates);

/// Shares of launches, adapted to what devices are found to do of them. They are the same for launches of all kinds: kernels that use
/// the same bytes are to be cut alike, or these would move each time. The same calls give the same shares, in every process.
class AdaptedShares {
public:
    explicit AdaptedShares(std::vector<double> first) : shares_(std::move(first)) {}

    [[nodiscard]] const std::vector<double> &shares() const { return shares_; }
    /// How often they have changed.
    [[nodiscard]] unsigned version() const { return version_; }
    /// The number of a new kind of launches: how many there were before.
    std::size_t add_kind();
    [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }
    /// To be called after each launch. Whether it is time to adapt(): after the 4th, the 8th, the 16th of the kind and so on, from the
    /// 1024th on after each 1024th.
    [[nodiscard]] bool count_launch(std::size_t kind, double work_items);
    /// By the rates since the last time, of all devices for the first kind, then for the second and so on, perhaps not for the
    /// last ones; 0 where a device has not ended a part. A device of which nothing is known for a kind counts as its share says. Whether shares have changed.
    bool adapt(std::span<const double> rates);

private:
    struct Kind {
        std::vector<double> rates;  // 0: not known
        double work_items;          // those before the last adapt() count half, and so on
        std::uint64_t launches;
    };

    std::vector<double> shares_;
    unsigned version_ = 0;
    std::vector<Kind> kinds_;
};

}  // namespace cldist::splitting
