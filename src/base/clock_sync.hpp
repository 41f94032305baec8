#pragma once

#include <cstdint>
#include <span>

namespace cldist {

/// One query of rank 0's time. `sent` and `received` are nanoseconds of this rank's clock, and
/// `answer` is nanoseconds of rank 0's clock.
struct RoundTrip {
    std::uint64_t sent;
    std::uint64_t answer;
    std::uint64_t received;
};

/// At `at_ns` of this rank's clock, rank 0's clock is ahead by `offset_ns`, with an error of at
/// most `uncertainty_ns`.
struct ClockSample {
    std::uint64_t at_ns;
    std::int64_t offset_ns;
    std::uint64_t uncertainty_ns;
};

/// Computes the clock offset from the shortest round trip. Rank 0 read its clock between `sent` and
/// `received`, so the uncertainty holds even if the two directions took different times. `trips`
/// must not be empty.
[[nodiscard]] ClockSample clock_sample(std::span<const RoundTrip> trips);

}  // namespace cldist
