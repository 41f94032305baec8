#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace cldist {

/// How a polling loop waits. It yields while something can complete very soon, then sleeps for a sixteenth of the time
/// already waited, so that polling less costs little latency and a long wait little CPU time.
class Backoff {
public:
    /// Something moved: begin anew.
    void reset() { since_ = 0; }

    /// How long to sleep now; zero means the processor was yielded instead. While bytes are in flight MPI needs to be
    /// called to move them, so sleeps begin later and stay short.
    std::chrono::nanoseconds pause(bool bytes_in_flight) {
        constexpr std::uint64_t us = 1000;
        const std::uint64_t now = now_ns();
        if (since_ == 0) since_ = now;
        const std::uint64_t waited = now - since_;
        if (waited < (bytes_in_flight ? 100 * us : 20 * us)) {
            sched_yield();
            return {};
        }
        return std::chrono::nanoseconds(
            std::clamp<std::uint64_t>(waited / 16, 5 * us, bytes_in_flight ? 200 * us : 10'000 * us));
    }

private:
    std::uint64_t since_ = 0;
};

}  // namespace cldist
