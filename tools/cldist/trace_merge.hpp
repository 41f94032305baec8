#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rank_trace.hpp"

namespace cldist::tool {

/// From the clock of one rank to that of rank 0.
class ClockCorrection {
public:
    /// The same clock.
    ClockCorrection() = default;
    /// Of a rank whose clock was measured at the times of `samples`: the offset goes in a straight line from the first to the
    /// last, and on. Without samples there is none.
    explicit ClockCorrection(const std::vector<ClockSample> &samples);

    /// The time of rank 0, of one of this rank, in microseconds.
    [[nodiscard]] double apply(double us) const { return us + offset_us_ + drift_ * (us - at_us_); }

    /// At the time of the samples, in microseconds.
    [[nodiscard]] double uncertainty_us() const { return uncertainty_us_; }
    /// How much faster rank 0's clock runs, in parts per million.
    [[nodiscard]] double drift_ppm() const { return drift_ * 1e6; }

private:
    double at_us_ = 0;
    double offset_us_ = 0;
    double drift_ = 0;
    double uncertainty_us_ = 0;
};

/// How the times of one rank come to be on rank 0's clock.
struct ClockChoice {
    ClockCorrection correction;
    std::string explanation;  ///< in words, for the user; empty for rank 0
};

/// `first` is the trace of rank 0, or null if there is none.
[[nodiscard]] ClockChoice choose_clock(const RankTrace &trace, const RankTrace *first);

/// Puts the times of all events on rank 0's clock.
void correct(RankTrace &trace, const ClockCorrection &clock);

/// One Chrome trace of all ranks, whose times begin at the first event. Ids are made unique: "RANK.ID".
[[nodiscard]] nlohmann::json merged(const std::vector<RankTrace> &traces);

}  // namespace cldist::tool
