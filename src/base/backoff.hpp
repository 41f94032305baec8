#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace cldist {

/// The patience of a caller whose command is blocking.
inline constexpr unsigned caller_patience = 1000;

/// How a polling loop waits. It yields while something can complete very soon, then sleeps for a sixteenth of the time
/// already waited, of long waits for less, so that polling less costs little latency and a long wait little CPU time.
class Backoff {
public:
    /// `patience` times as long as usual it yields before it sleeps: a caller that waits for one thing has nothing
    /// better to do.
    /// Where each turn of the loop calls what yields already, it `yields` no second time.
    explicit Backoff(unsigned patience = 1, bool yields = true) : patience_(patience), yields_(yields) {}

    /// Something moved: begin anew.
    void reset() { since_ = 0; }

    /// How long to sleep now; zero means not at all.
    std::chrono::nanoseconds pause(bool bytes_in_flight) {
        const std::uint64_t now = now_ns();
        if (since_ == 0) since_ = now;
        const auto sleep = sleep_after(now - since_, bytes_in_flight, patience_);
        if (sleep.count() == 0 && yields_) sched_yield();
        return sleep;
    }

    /// After how long a wait to sleep, and how long. While bytes are in flight MPI needs to be called to move them, so
    /// sleeps begin later and stay short.
    static std::chrono::nanoseconds sleep_after(std::uint64_t waited_ns, bool bytes_in_flight, unsigned patience) {
        constexpr std::uint64_t us = 1000;
        if (waited_ns < patience * (bytes_in_flight ? 30 * us : 10 * us)) return {};
        const std::uint64_t sixteenth =
            std::clamp<std::uint64_t>(waited_ns / 16, 5 * us, bytes_in_flight ? 200 * us : 1'000 * us);
        if (bytes_in_flight) return std::chrono::nanoseconds(sixteenth);
        return std::chrono::nanoseconds(std::clamp<std::uint64_t>(waited_ns / 256, sixteenth, 10'000 * us));
    }

private:
    unsigned patience_;
    bool yields_;
    std::uint64_t since_ = 0;
};

}  // namespace cldist
