// Clocks: rank 0's, read by its own calls. Times that a thread waits until are put on this host's clocks.
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>

#include "host/gate.hpp"
#include "host/next.hpp"

namespace cldist::host {
namespace {

constexpr std::int64_t second = 1'000'000'000;

std::int64_t ns_of(const timespec &time) { return time.tv_sec * second + time.tv_nsec; }
timespec time_of(std::int64_t ns) { return {ns / second, ns % second}; }

// How far this host's clock is ahead of what the program has been told, of CLOCK_REALTIME and CLOCK_MONOTONIC.
std::array<std::atomic<std::int64_t>, 2> ahead{};

struct Reading {
    timespec time;
    int result;
    int code;
};

int answered_clock(Session &session, clockid_t clock, timespec *time) {
    const Inside inside;
    const auto reading =
        session.answer<Reading>(Answer::clock, static_cast<std::uint32_t>(clock), "clock_gettime", [&] {
            Reading mine{};
            mine.result = next_clock_gettime(clock, &mine.time);
            mine.code = errno;
            return mine;
        });
    if (reading.result != 0) {
        errno = reading.code;
        return reading.result;
    }
    if (!session.first() && session.far() && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC)) {
        timespec here{};
        next_clock_gettime(clock, &here);
        ahead[clock == CLOCK_MONOTONIC ? 1 : 0] = ns_of(here) - ns_of(reading.time);
    }
    *time = reading.time;
    return 0;
}

// A time of the program's on this host's clock.
const timespec *here(const void *caller, clockid_t clock, const timespec *time, timespec &moved) {
    const Session *const session = wrapped(clocks, caller);
    if (session == nullptr || session->first() || !session->far() || time == nullptr) return time;
    const std::int64_t by = ahead[clock == CLOCK_MONOTONIC ? 1 : 0];
    if (by == 0) return time;
    moved = time_of(ns_of(*time) + by);
    return &moved;
}

}  // namespace

int next_clock_gettime(clockid_t clock, timespec *time) {
    static auto *const next = next_function<decltype(::clock_gettime)>("clock_gettime");
    return next(clock, time);
}

}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT int clock_gettime(clockid_t clock, timespec *time) noexcept {
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    return session == nullptr ? next_clock_gettime(clock, time) : answered_clock(*session, clock, time);
}

// The C library's calls of these do not come through the function above.
CLDIST_IN_FRONT std::time_t time(std::time_t *result) noexcept {
    CLDIST_NEXT(time);
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    if (session == nullptr) return next(result);
    const Inside inside;
    const auto now = session->answer<std::time_t>(Answer::clock, 100, "time", [] { return next(nullptr); });
    if (result != nullptr) *result = now;
    return now;
}

CLDIST_IN_FRONT int gettimeofday(timeval *now, void *zone) noexcept {
    static auto *const next = next_function<int(timeval *, void *)>("gettimeofday");
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    if (session == nullptr) return next(now, zone);
    const Inside inside;
    *now = session->answer<timeval>(Answer::clock, 101, "gettimeofday", [] {
        timeval mine{};
        next(&mine, nullptr);
        return mine;
    });
    return 0;
}

CLDIST_IN_FRONT std::clock_t clock() noexcept {
    CLDIST_NEXT(clock);
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    if (session == nullptr) return next();
    const Inside inside;
    return session->answer<std::clock_t>(Answer::clock, 102, "clock", [] { return next(); });
}

CLDIST_IN_FRONT int timespec_get(timespec *time, int base) noexcept {
    CLDIST_NEXT(timespec_get);
    Session *const session = base == TIME_UTC ? wrapped(clocks, __builtin_return_address(0)) : nullptr;
    if (session == nullptr) return next(time, base);
    answered_clock(*session, CLOCK_REALTIME, time);
    return base;
}

CLDIST_IN_FRONT std::clock_t times(tms *result) noexcept {
    static auto *const next = next_function<std::clock_t(tms *)>("times");
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    if (session == nullptr || result == nullptr) return next(result);
    const Inside inside;
    struct Both {
        tms parts;
        std::clock_t now;
    };
    const auto both = session->answer<Both>(Answer::clock, 103, "times", [] {
        Both mine{};
        mine.now = next(&mine.parts);
        return mine;
    });
    *result = both.parts;
    return both.now;
}

// std::chrono's, which are in the C++ library: whoever calls that one counts.
extern "C" {
std::int64_t _ZNSt6chrono3_V212system_clock3nowEv() noexcept;
std::int64_t _ZNSt6chrono3_V212steady_clock3nowEv() noexcept;
}

CLDIST_IN_FRONT std::int64_t _ZNSt6chrono3_V212system_clock3nowEv() noexcept {
    timespec now{};
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    if (session == nullptr)
        next_clock_gettime(CLOCK_REALTIME, &now);
    else
        answered_clock(*session, CLOCK_REALTIME, &now);
    return ns_of(now);
}

CLDIST_IN_FRONT std::int64_t _ZNSt6chrono3_V212steady_clock3nowEv() noexcept {
    timespec now{};
    Session *const session = wrapped(clocks, __builtin_return_address(0));
    if (session == nullptr)
        next_clock_gettime(CLOCK_MONOTONIC, &now);
    else
        answered_clock(*session, CLOCK_MONOTONIC, &now);
    return ns_of(now);
}

// ---- Waiting until --------------------------------------------------------------------------------------------------------

CLDIST_IN_FRONT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const timespec *until) {
    // The oldest version has another structure.
    static auto *const next = next_function<int(pthread_cond_t *, pthread_mutex_t *, const timespec *)>(
        "pthread_cond_timedwait", "GLIBC_2.3.2");
    timespec moved{};
    return next(condition, mutex, here(__builtin_return_address(0), CLOCK_REALTIME, until, moved));
}

CLDIST_IN_FRONT int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                           const timespec *until) {
    static auto *const next =
        next_function<int(pthread_cond_t *, pthread_mutex_t *, clockid_t, const timespec *)>("pthread_cond_clockwait");
    timespec moved{};
    return next(condition, mutex, clock, here(__builtin_return_address(0), clock, until, moved));
}

CLDIST_IN_FRONT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const timespec *until) noexcept {
    static auto *const next = next_function<int(pthread_mutex_t *, const timespec *)>("pthread_mutex_timedlock");
    timespec moved{};
    return next(mutex, here(__builtin_return_address(0), CLOCK_REALTIME, until, moved));
}

CLDIST_IN_FRONT int sem_timedwait(sem_t *semaphore, const timespec *until) {
    static auto *const next = next_function<int(sem_t *, const timespec *)>("sem_timedwait");
    timespec moved{};
    return next(semaphore, here(__builtin_return_address(0), CLOCK_REALTIME, until, moved));
}

CLDIST_IN_FRONT int clock_nanosleep(clockid_t clock, int flags, const timespec *until, timespec *left) {
    static auto *const next = next_function<int(clockid_t, int, const timespec *, timespec *)>("clock_nanosleep");
    timespec moved{};
    return next(clock, flags,
                (flags & TIMER_ABSTIME) != 0 ? here(__builtin_return_address(0), clock, until, moved) : until, left);
}
