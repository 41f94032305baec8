#include "base/backoff.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <thread>

#include "base/clock.hpp"
#include "base/crowding.hpp"

namespace cldist {
namespace {

constexpr std::uint64_t us = 1000;

// While other programs want the cores, a wait spins for this long. A running peer answers sooner.
constexpr std::uint64_t spin_ns = 50 * us;

Crowding &crowding() {
    static Crowding instance(now_ns(), read_core_time());
    return instance;
}

void note_late_yield(std::uint64_t now) {
    if (job_fits_on_cores())
        crowding().came_back_late(now, process_time());
    else if (crowding().wants_times(now))
        crowding().note(now, read_core_time());
}

std::chrono::nanoseconds growing(std::uint64_t waited_ns, bool bytes_in_flight,
                                 std::uint64_t least) {
    const std::uint64_t sixteenth =
        std::clamp<std::uint64_t>(waited_ns / 16, least, bytes_in_flight ? 200 * us : 1'000 * us);
    if (bytes_in_flight) return std::chrono::nanoseconds(sixteenth);
    return std::chrono::nanoseconds(
        std::clamp<std::uint64_t>(waited_ns / 256, sixteenth, 10'000 * us));
}

}  // namespace

std::chrono::nanoseconds Backoff::pause(bool bytes_in_flight) {
    const std::uint64_t now = now_ns();
    if (since_ == 0) since_ = now;
    if (crowding().at(now)) return sleep_in_crowd(now - since_, bytes_in_flight);
    const auto sleep = sleep_after(now - since_, bytes_in_flight, patience_);
    if (sleep.count() != 0) return sleep;
    sched_yield();
    if (const std::uint64_t after = now_ns(); after - now > Crowding::late_ns)
        note_late_yield(after);
    return {};
}

void Backoff::sleep(std::chrono::nanoseconds duration) {
    if (duration.count() == 0) return;
    // The default slack of 50 us would double many sleeps.
    const int slack = prctl(PR_GET_TIMERSLACK);
    if (slack > 1000) prctl(PR_SET_TIMERSLACK, 1000);
    std::this_thread::sleep_for(duration);
    if (slack > 1000) prctl(PR_SET_TIMERSLACK, slack);
}

std::chrono::nanoseconds Backoff::sleep_after(std::uint64_t waited_ns, bool bytes_in_flight,
                                              unsigned patience) {
    if (waited_ns < patience * (bytes_in_flight ? 30 * us : 10 * us)) return {};
    return growing(waited_ns, bytes_in_flight, 5 * us);
}

std::chrono::nanoseconds Backoff::sleep_in_crowd(std::uint64_t waited_ns, bool bytes_in_flight) {
    if (waited_ns < spin_ns) return {};
    return growing(waited_ns, bytes_in_flight, 10 * us);
}

}  // namespace cldist
