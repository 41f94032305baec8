#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cldist {

/// The patience of a caller whose command is blocking.
inline constexpr unsigned caller_patience = 1000;

/// How a polling loop waits. It yields while something can complete very soon. Then it sleeps for a sixteenth of the time
/// already waited, or less in a long wait, so that polling less costs little latency and a long wait costs little CPU time.
/// If other programs want the cores (`Crowding`), a yield costs a time slice of milliseconds. Then it spins for a moment and
/// sleeps.
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
    /// The same beside other programs that want the cores.
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
