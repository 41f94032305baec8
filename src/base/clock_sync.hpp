#pragma once

#include <cstdint>
#include <span>

namespace cldist {

/// One question to rank 0 for its time, in nanoseconds: when it was sent and when the answer came, by the clock of this
/// rank, and the answer, by that of rank 0.
struct RoundTrip {
    std::uint64_t sent;
    std::uint64_t answer;
    std::uint64_t received;
};

/// How far the clock of rank 0 is ahead of this rank's: at `at_ns` of this rank's, to within `uncertainty_ns`.
struct ClockSample {
    std::uint64_t at_ns;
    std::int64_t offset_ns;
    std::uint64_t uncertainty_ns;
};

/// What the shortest of the round trips tells. The uncertainty holds however unequal its two ways were, since the answer
/// was written between its two ends. `trips` is not empty.
[[nodiscard]] ClockSample clock_sample(std::span<const RoundTrip> trips);

}  // namespace cldist
