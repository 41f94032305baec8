#include "base/clock_sync.hpp"

#include <algorithm>

namespace cldist {

ClockSample clock_sample(std::span<const RoundTrip> trips) {
    const RoundTrip &best =
        *std::min_element(trips.begin(), trips.end(), [](const RoundTrip &a, const RoundTrip &b) {
            return a.received - a.sent < b.received - b.sent;
        });
    const std::uint64_t duration = best.received - best.sent;
    const std::uint64_t middle = best.sent + duration / 2;
    // Half a round trip, rounded up because the middle was rounded down.
    return {middle, static_cast<std::int64_t>(best.answer) - static_cast<std::int64_t>(middle),
            (duration + 1) / 2};
}

}  // namespace cldist
