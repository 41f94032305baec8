#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace cldist {

/// The patience of a caller whose command is blocking.
inline constexpr unsigned caller_patience = 1000;

/// Whether others take the cores from a process that waits: its yields come back late, and meanwhile its other threads
/// have not run either. Thread-safe.
class Crowding {
public:
    /// Shorter yields lose nothing worth knowing.
    static constexpr std::uint64_t late_ns = 200'000;
    /// For so long what was noticed holds.
    static constexpr std::uint64_t holds_ns = 200'000'000;

    /// A yield came back late, at `now`; until then the process has used `process_ns` of the cores' time.
    void came_back_late(std::uint64_t now, std::uint64_t process_ns);
    [[nodiscard]] bool at(std::uint64_t now) const { return now < until_.load(std::memory_order_relaxed); }

private:
    // When a yield came back late before, and what the process had used by then; 0: long ago.
    std::atomic<std::uint64_t> before_ns_{0};
    std::atomic<std::uint64_t> process_before_ns_{0};
    std::atomic<std::uint64_t> until_{0};
};

/// How a polling loop waits. It yields while something can complete very soon, then sleeps for a sixteenth of the time
/// already waited, of long waits for less, so that polling less costs little latency and a long wait little CPU time.
/// Where others want the cores a yield costs a turn of milliseconds: then it spins for a moment, and sleeps.
class Backoff {
public:
    /// `patience` times as long as usual it yields before it sleeps: a caller that waits for one thing has nothing
    /// better to do.
    explicit Backoff(unsigned patience = 1) : patience_(patience) {}

    /// Something moved: begin anew.
    void reset() { since_ = 0; }

    /// How long to sleep now; zero means not at all.
    std::chrono::nanoseconds pause(bool bytes_in_flight);
    /// The same, slept, whatever slack the thread's timers have.
    void rest(bool bytes_in_flight) { sleep(pause(bytes_in_flight)); }
    static void sleep(std::chrono::nanoseconds duration);

    /// After how long a wait to sleep, and how long. While bytes are in flight MPI needs to be called to move them, so
    /// sleeps begin later and stay short.
    static std::chrono::nanoseconds sleep_after(std::uint64_t waited_ns, bool bytes_in_flight, unsigned patience);
    /// The same where others want the cores.
    static std::chrono::nanoseconds sleep_in_crowd(std::uint64_t waited_ns, bool bytes_in_flight);

    /// For how long not to look again after a look that took `cost`, for others want what it holds: `pause`, or longer, up to `most`.
    static constexpr std::chrono::nanoseconds after_look(std::chrono::nanoseconds pause, std::chrono::nanoseconds cost,
                                                         std::chrono::nanoseconds most) {
        return std::min(std::max(pause, cost * 2), most);
    }

private:
    unsigned patience_;
    std::uint64_t since_ = 0;
};

}  // namespace cldist
