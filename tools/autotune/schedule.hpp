#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "pipeline/profile.hpp"

// How the time is used. All functions are pure.
namespace cldist::tool {

/// Every measured way gets at least so many rounds, except ways that have fallen far behind.
inline constexpr unsigned least_rounds = 3;
/// A way may be dropped after so many rounds …
inline constexpr unsigned rounds_before_dropping = 2;
/// … if its median exceeds the best one by this factor.
inline constexpr double far_behind = 2;
inline constexpr unsigned most_rounds = 31;
/// If one transfer takes so many seconds, no larger sizes are measured.
inline constexpr double longest_transfer = 0.3;

[[nodiscard]] double median(std::vector<double> values);

/// The spread of times: the distance of the quartiles divided by the median.
[[nodiscard]] double spread(std::vector<double> times);
/// If the typical spread of a route is larger, its times are too disturbed for a choice.
inline constexpr double widest_spread = 0.3;

/// The number of round trips in a timed loop, if one transfer takes `seconds`.
[[nodiscard]] unsigned repetitions(double seconds, double loop_seconds);

/// The ways that are measured further. `times` are the times of each way's rounds; a way without
/// times is not measured.
[[nodiscard]] std::vector<bool> still_measured(const std::vector<std::vector<double>> &times);

/// The ways that can be measured in `budget` seconds: the fastest first, at least two. `expected`
/// is the time of one transfer of each way, 0 if unknown. Returns indices in ascending order; none
/// if not even two ways fit.
[[nodiscard]] std::vector<std::size_t> affordable(const std::vector<double> &expected,
                                                  double loop_seconds, double budget);

/// Distributes the time of a run to its routes, one after another. Later routes share the unused
/// time.
class Budget {
public:
    /// `routes` are all routes of the run.
    Budget(double seconds, double now, const std::vector<Route> &routes);

    /// The seconds for the next route.
    [[nodiscard]] double share_of(Route route, double now);
    /// The minimum time of the later routes, in seconds.
    [[nodiscard]] double rest() const { return rest_; }

private:
    double end_;
    double weights_ = 0;  ///< of the later routes
    double rest_ = 0;
};

/// The `usual` depth if its time is within 10% of the best, otherwise the smallest depth within 2%.
/// `times` is not empty.
[[nodiscard]] unsigned good_depth(const std::vector<std::pair<unsigned, double>> &times,
                                  unsigned usual);

}  // namespace cldist::tool
