#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rank_trace.hpp"

namespace cldist::tool {

/// Converts the times of one rank's clock to rank 0's clock.
class ClockCorrection {
public:
    /// No conversion: the clock is rank 0's.
    ClockCorrection() = default;
    /// For a rank whose clock was measured at the times of `samples`. The offset is the line
    /// through the first and the last sample. Without samples there is no conversion.
    explicit ClockCorrection(const std::vector<ClockSample> &samples);

    /// Rank 0's time for a time of this rank, in microseconds.
    [[nodiscard]] double apply(double us) const { return us + offset_us_ + drift_ * (us - at_us_); }

    /// The uncertainty at the times of the samples, in microseconds.
    [[nodiscard]] double uncertainty_us() const { return uncertainty_us_; }
    /// How much faster rank 0's clock runs, in parts per million.
    [[nodiscard]] double drift_ppm() const { return drift_ * 1e6; }

private:
    double at_us_ = 0;
    double offset_us_ = 0;
    double drift_ = 0;
    double uncertainty_us_ = 0;
};

/// How the times of one rank are converted to rank 0's clock.
struct ClockChoice {
    ClockCorrection correction;
    std::string explanation;  ///< in words for the user; empty for rank 0
};

/// `first` is the trace of rank 0, or null if there is none.
[[nodiscard]] ClockChoice choose_clock(const RankTrace &trace, const RankTrace *first);

/// Converts the times of all events to rank 0's clock.
void correct(RankTrace &trace, const ClockCorrection &clock);

/// One Chrome trace of all ranks, whose times begin at the first event. Ids become "RANK.ID" to be
/// unique. Stages of a command that overlap without nesting get ids "RANK.ID/1" and higher, and
/// overlapping kernels get other threads.
[[nodiscard]] nlohmann::json merged(const std::vector<RankTrace> &traces);

}  // namespace cldist::tool
