#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "pipeline/profile.hpp"

// How a run of `cldist tune` spends its time. All functions are pure.
namespace cldist::tool {

/// Every measured way gets at least this many rounds, unless it is dropped.
inline constexpr unsigned least_rounds = 3;
/// After this many rounds, a way is dropped …
inline constexpr unsigned rounds_before_dropping = 2;
/// … if its median exceeds this multiple of the best median.
inline constexpr double far_behind = 2;
inline constexpr unsigned most_rounds = 31;
/// If one transfer takes longer (in seconds), no larger sizes are measured.
inline constexpr double longest_transfer = 0.3;

[[nodiscard]] double median(std::vector<double> values);

/// The spread of times: the distance of the quartiles divided by the median.
[[nodiscard]] double spread(std::vector<double> times);
/// A route whose median spread is larger was disturbed too much for a choice.
inline constexpr double widest_spread = 0.3;

/// The number of round trips in a timed loop, if one transfer takes `seconds`.
[[nodiscard]] unsigned repetitions(double seconds, double loop_seconds);

/// Which ways are measured further. `times` are the times of each way's rounds; a way without times
/// is not measured.
[[nodiscard]] std::vector<bool> still_measured(const std::vector<std::vector<double>> &times);

/// The fastest ways that can be measured in `budget` seconds, as ascending indices; none if not
/// even two ways fit. `expected` is the time of one transfer of each way, 0 if unknown.
[[nodiscard]] std::vector<std::size_t> affordable(const std::vector<double> &expected,
                                                  double loop_seconds, double budget);

/// Distributes the time of a run to its routes. Later routes share the time that a route saves.
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
