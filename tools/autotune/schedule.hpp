#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "pipeline/profile.hpp"

// How the time is spent. All pure.
namespace cldist::tool {

/// Every way has so many rounds, if it is measured at all, but those that have fallen far behind.
inline constexpr unsigned least_rounds = 3;
/// After so many it may have fallen behind …
inline constexpr unsigned rounds_before_dropping = 2;
/// … by so much.
inline constexpr double far_behind = 2;
inline constexpr unsigned most_rounds = 31;
/// Once one transfer takes so many seconds, no larger ones are measured.
inline constexpr double longest_transfer = 0.3;

[[nodiscard]] double median(std::vector<double> values);

/// How far the times scatter: the distance of their quartiles, as a part of their median.
[[nodiscard]] double spread(std::vector<double> times);
/// A route whose typical spread is wider was disturbed too much to choose from its times.
inline constexpr double widest_spread = 0.3;

/// How many transfers there and back fill a timed loop, if one transfer takes `seconds`.
[[nodiscard]] unsigned repetitions(double seconds, double loop_seconds);

/// Which ways are measured further. `times` has what each way's rounds took; one without any is not measured.
[[nodiscard]] std::vector<bool> still_measured(const std::vector<std::vector<double>> &times);

/// Which ways can be measured in `budget` seconds: the fastest first, and at least two of them. `expected` has the seconds
/// of one transfer of each way, 0 where nothing is known. In their order; none if not even two fit.
[[nodiscard]] std::vector<std::size_t> affordable(const std::vector<double> &expected, double loop_seconds,
                                                  double budget);

/// The time of a run, dealt out to its routes one after the other: what one leaves the next ones share.
class Budget {
public:
    /// `routes` are those to come.
    Budget(double seconds, double now, const std::vector<Route> &routes);

    /// The seconds for a route, the next of those told.
    [[nodiscard]] double share_of(Route route, double now);
    /// The seconds that those behind it will have at least.
    [[nodiscard]] double rest() const { return rest_; }

private:
    double end_;
    double weights_ = 0;  ///< of those to come
    double rest_ = 0;
};

/// The `usual` depth, if its time is within 10 % of the best; else the smallest within 2 %. `times` is not empty.
[[nodiscard]] unsigned good_depth(const std::vector<std::pair<unsigned, double>> &times, unsigned usual);

}  // namespace cldist::tool
