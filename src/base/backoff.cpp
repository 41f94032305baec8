#include "base/backoff.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "base/clock.hpp"

namespace cldist {
namespace {

constexpr std::uint64_t us = 1000;

// For so long a crowded wait spins: an answer of a process that runs comes sooner.
constexpr std::uint64_t spin_ns = 50 * us;

Crowding &crowding() {
    static Crowding instance;
    return instance;
}

std::uint64_t process_ns() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

std::chrono::nanoseconds growing(std::uint64_t waited_ns, bool bytes_in_flight, std::uint64_t least) {
    const std::uint64_t sixteenth =
        std::clamp<std::uint64_t>(waited_ns / 16, least, bytes_in_flight ? 200 * us : 1'000 * us);
    if (bytes_in_flight) return std::chrono::nanoseconds(sixteenth);
    return std::chrono::nanoseconds(std::clamp<std::uint64_t>(waited_ns / 256, sixteenth, 10'000 * us));
}

}  // namespace

void Crowding::came_back_late(std::uint64_t now, std::uint64_t process_ns) {
    const std::uint64_t before = before_ns_.exchange(now, std::memory_order_relaxed);
    const std::uint64_t process_before = process_before_ns_.exchange(process_ns, std::memory_order_relaxed);
    if (before == 0 || now - before > holds_ns) return;
    // A process that uses half a core or more is kept waiting by itself.
    if (process_ns - process_before < (now - before) / 2) until_.store(now + holds_ns, std::memory_order_relaxed);
}

std::chrono::nanoseconds Backoff::pause(bool bytes_in_flight) {
    const std::uint64_t now = now_ns();
    if (since_ == 0) since_ = now;
    if (crowding().at(now)) return sleep_in_crowd(now - since_, bytes_in_flight);
    const auto sleep = sleep_after(now - since_, bytes_in_flight, patience_);
    if (sleep.count() != 0) return sleep;
    sched_yield();
    if (const std::uint64_t after = now_ns(); after - now > Crowding::late_ns)
        crowding().came_back_late(after, process_ns());
    return {};
}

void Backoff::sleep(std::chrono::nanoseconds duration) {
    if (duration.count() == 0) return;
    // By default 50 us, as long again as many a sleep.
    const int slack = prctl(PR_GET_TIMERSLACK);
    if (slack > 1000) prctl(PR_SET_TIMERSLACK, 1000);
    std::this_thread::sleep_for(duration);
    if (slack > 1000) prctl(PR_SET_TIMERSLACK, slack);
}

std::chrono::nanoseconds Backoff::sleep_after(std::uint64_t waited_ns, bool bytes_in_flight, unsigned patience) {
    if (waited_ns < patience * (bytes_in_flight ? 30 * us : 10 * us)) return {};
    return growing(waited_ns, bytes_in_flight, 5 * us);
}

std::chrono::nanoseconds Backoff::sleep_in_crowd(std::uint64_t waited_ns, bool bytes_in_flight) {
    if (waited_ns < spin_ns) return {};
    return growing(waited_ns, bytes_in_flight, 10 * us);
}

}  // namespace cldist
