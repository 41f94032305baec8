#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cldist {

/// `patience` of a thread that waits in a blocking command.
inline constexpr unsigned caller_patience = 1000;
/// `patience` of a progress thread that polls MPI or a device that does not use the host's cores.
/// See docs/dev/decisions/0024-yield-before-sleeping.md.
inline constexpr unsigned progress_patience = 200;

/// Decides how a polling loop waits. At first the loop yields, because something may complete very
/// soon. Then it sleeps for a sixteenth of the time already waited, or less in a long wait. Short
/// waits thus have little latency, and long waits use little CPU time. If other programs want the
/// cores (`Crowding`), a yield can cost a time slice of several milliseconds. The loop then spins
/// for 50 us and sleeps.
class Backoff {
public:
    /// Yields `patience` times longer than usual before it sleeps.
    explicit Backoff(unsigned patience = 1) : patience_(patience) {}

    /// Restarts the wait because there was progress.
    void reset() { since_ = 0; }

    /// Returns how long to sleep now, or zero if the thread has just yielded.
    std::chrono::nanoseconds pause(bool bytes_in_flight);
    /// Waits as pause() requires, regardless of the thread's timer slack.
    void rest(bool bytes_in_flight) { sleep(pause(bytes_in_flight)); }
    static void sleep(std::chrono::nanoseconds duration);

    /// Returns how long to sleep after a wait of `waited_ns`, or zero to yield. MPI moves bytes
    /// only inside MPI calls. While bytes are in flight, sleeps therefore begin later and stay
    /// short.
    static std::chrono::nanoseconds sleep_after(std::uint64_t waited_ns, bool bytes_in_flight,
                                                unsigned patience);
    /// The same while other programs want the cores. Zero means to spin.
    static std::chrono::nanoseconds sleep_in_crowd(std::uint64_t waited_ns, bool bytes_in_flight);

    /// Returns how long to wait after a check that took `cost`: the longer of `pause` and twice
    /// `cost`, but at most `most`. Checks that follow each other closely would keep other threads
    /// from a lock of the platform.
    static constexpr std::chrono::nanoseconds after_check(std::chrono::nanoseconds pause,
                                                          std::chrono::nanoseconds cost,
                                                          std::chrono::nanoseconds most) {
        return std::min(std::max(pause, cost * 2), most);
    }

private:
    unsigned patience_;
    std::uint64_t since_ = 0;
};

}  // namespace cldist
