#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace cldist {

/// How a polling loop waits. It yields for some milliseconds, then sleeps for a small part of the time already waited, so
/// that polling less costs little latency and a long wait little CPU time. Where a device computes with all cores, a thread
/// that yields is in its way less than one that sleeps for microseconds: the end of each sleep preempts a computing thread.
class Backoff {
public:
    /// Where each turn of the loop calls what yields already, it `yields` no second time.
    explicit Backoff(bool yields = true) : yields_(yields) {}

    /// Something moved: begin anew.
    void reset() { since_ = 0; }

    /// How long to sleep now; zero means not at all.
    std::chrono::nanoseconds pause(bool bytes_in_flight) {
        const std::uint64_t now = now_ns();
        if (since_ == 0) since_ = now;
        const auto sleep = sleep_after(now - since_, bytes_in_flight);
        if (sleep.count() == 0 && yields_) sched_yield();
        return sleep;
    }

    /// After how long a wait to sleep, and how long. While bytes are in flight MPI needs to be called to move them, so
    /// sleeps begin later and stay short.
    static std::chrono::nanoseconds sleep_after(std::uint64_t waited_ns, bool bytes_in_flight) {
        using namespace std::chrono_literals;
        const std::chrono::nanoseconds waited(waited_ns);
        if (waited < (bytes_in_flight ? 15ms : 5ms)) return {};
        return bytes_in_flight ? 200us : std::min<std::chrono::nanoseconds>(waited / 64, 10ms);
    }

private:
    bool yields_;
    std::uint64_t since_ = 0;
};

}  // namespace cldist
