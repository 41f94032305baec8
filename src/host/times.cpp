// Clocks: the main thread's reads outside OpenCL return rank 0's values. Other reads return this
// host's clock, shifted to that of rank 0's host. Times to wait until are shifted back.
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "host/gate.hpp"
#include "host/next.hpp"

namespace cldist::host {
namespace {

constexpr std::int64_t second = 1'000'000'000;

// Values of Record::key in addition to the numbers of clocks.
constexpr std::uint32_t cpu_time = 100;
constexpr std::uint32_t cpu_times = 101;

timespec time_of(std::int64_t ns) { return {ns / second, ns % second}; }

// Returns the session if a clock read gets rank 0's value, otherwise null.
Session *of_main(const void *caller) {
    return this_thread.id > main_thread ? nullptr : wrapped(clocks, caller);
}

struct Reading {
    timespec time;
    int result;
    int code;
};

// Reads this host's clock and shifts the time to the clock of rank 0's host.
Reading read_here(const Session &session, clockid_t clock) {
    Reading mine{};
    mine.result = next_clock_gettime(clock, &mine.time);
    mine.code = errno;
    if (const std::int64_t ahead = session.ahead(clock); ahead != 0)
        mine.time = time_of(ns_of(mine.time) - ahead);
    return mine;
}

int read(const void *caller, clockid_t clock, timespec *time) {
    Session *session = of_main(caller);
    if (session == nullptr) {
        session = Session::current() != nullptr && Session::current()->far()
                      ? wrapped_anywhere(clocks, caller)
                      : nullptr;
        if (session == nullptr) return next_clock_gettime(clock, time);
        const Inside inside;
        const Reading mine = read_here(*session, clock);
        *time = mine.time;
        errno = mine.code;
        return mine.result;
    }
    const Inside inside;
    const auto reading = session->read_clock<Reading>(static_cast<std::uint32_t>(clock),
                                                      [&] { return read_here(*session, clock); });
    if (reading.result != 0) {
        errno = reading.code;
        return reading.result;
    }
    *time = reading.time;
    if (clock == CLOCK_MONOTONIC) {
        // Rank 0's next value may be less than a value of this process's clock.
        static std::int64_t last = 0;  // only the main thread uses it
        last = std::max(last, ns_of(reading.time));
        *time = time_of(last);
    }
    return 0;
}

}  // namespace

const timespec *here(const void *caller, clockid_t clock, const timespec *time, timespec &moved) {
    const Session *const session = Session::current();
    if (session == nullptr || !session->far() || time == nullptr ||
        wrapped_anywhere(clocks, caller) == nullptr)
        return time;
    moved = time_of(ns_of(*time) + session->ahead(clock));
    return &moved;
}

int next_clock_gettime(clockid_t clock, timespec *time) {
    CLDIST_NEXT(clock_gettime);
    return next(clock, time);
}

}  // namespace cldist::host

using namespace cldist::host;

CLDIST_IN_FRONT int clock_gettime(clockid_t clock, timespec *time) noexcept {
    return read(__builtin_return_address(0), clock, time);
}

// The following functions are wrapped, too, because they don't call the wrapper of clock_gettime.
CLDIST_IN_FRONT std::time_t time(std::time_t *result) noexcept {
    timespec now{};
    // Like the C library's time(), use the time of the last tick. With the exact time, a later
    // unwrapped call could return an earlier second.
    read(__builtin_return_address(0), CLOCK_REALTIME_COARSE, &now);
    if (result != nullptr) *result = now.tv_sec;
    return now.tv_sec;
}

CLDIST_IN_FRONT int gettimeofday(timeval *result, void *zone) noexcept {
    if (zone != nullptr) *static_cast<struct timezone *>(zone) = {};
    timespec now{};
    read(__builtin_return_address(0), CLOCK_REALTIME, &now);
    *result = {now.tv_sec, static_cast<suseconds_t>(now.tv_nsec / 1000)};
    return 0;
}

CLDIST_IN_FRONT std::clock_t clock() noexcept {
    CLDIST_NEXT(clock);
    Session *const session = of_main(__builtin_return_address(0));
    if (session == nullptr) return next();
    const Inside inside;
    return session->read_clock<std::clock_t>(cpu_time, [] { return next(); });
}

CLDIST_IN_FRONT int timespec_get(timespec *time, int base) noexcept {
    CLDIST_NEXT(timespec_get);
    if (base != TIME_UTC) return next(time, base);
    read(__builtin_return_address(0), CLOCK_REALTIME, time);
    return base;
}

CLDIST_IN_FRONT std::clock_t times(tms *result) noexcept {
    CLDIST_NEXT(times);
    Session *const session = of_main(__builtin_return_address(0));
    if (session == nullptr || result == nullptr) return next(result);
    const Inside inside;
    struct Both {
        tms parts;
        std::clock_t now;
    };
    const auto both = session->read_clock<Both>(cpu_times, [] {
        Both mine{};
        mine.now = next(&mine.parts);
        return mine;
    });
    *result = both.parts;
    return both.now;
}

// The clocks of std::chrono, which are in the C++ library.
extern "C" {
std::int64_t _ZNSt6chrono3_V212system_clock3nowEv() noexcept;
std::int64_t _ZNSt6chrono3_V212steady_clock3nowEv() noexcept;
}

CLDIST_IN_FRONT std::int64_t _ZNSt6chrono3_V212system_clock3nowEv() noexcept {
    timespec now{};
    read(__builtin_return_address(0), CLOCK_REALTIME, &now);
    return ns_of(now);
}

CLDIST_IN_FRONT std::int64_t _ZNSt6chrono3_V212steady_clock3nowEv() noexcept {
    timespec now{};
    read(__builtin_return_address(0), CLOCK_MONOTONIC, &now);
    return ns_of(now);
}

// ---- Waiting until a time

CLDIST_IN_FRONT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                           const timespec *until) {
    // An older version of this function has a different pthread_cond_t.
    static auto *const next =
        next_function<int(pthread_cond_t *, pthread_mutex_t *, const timespec *)>(
            "pthread_cond_timedwait", "GLIBC_2.3.2");
    // glibc keeps the clock that pthread_condattr_setclock has chosen in this bit.
    const clockid_t clock =
        (condition->__data.__wrefs & 2U) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    timespec moved{};
    return next(condition, mutex, here(__builtin_return_address(0), clock, until, moved));
}

// A function that waits until `until`, a time of `of_clock`.
#define CLDIST_WAIT(name, parameters, of_clock, arguments)                 \
    CLDIST_IN_FRONT int name parameters {                                  \
        CLDIST_NEXT(name);                                                 \
        timespec moved{};                                                  \
        until = here(__builtin_return_address(0), of_clock, until, moved); \
        return next arguments;                                             \
    }
CLDIST_WAIT(pthread_cond_clockwait,
            (pthread_cond_t * condition, pthread_mutex_t *mutex, clockid_t clock,
             const timespec *until),
            clock, (condition, mutex, clock, until))
CLDIST_WAIT(pthread_mutex_timedlock, (pthread_mutex_t * mutex, const timespec *until) noexcept,
            CLOCK_REALTIME, (mutex, until))
CLDIST_WAIT(sem_timedwait, (sem_t * semaphore, const timespec *until), CLOCK_REALTIME,
            (semaphore, until))
CLDIST_WAIT(sem_clockwait, (sem_t * semaphore, clockid_t clock, const timespec *until), clock,
            (semaphore, clock, until))
CLDIST_WAIT(pthread_mutex_clocklock,
            (pthread_mutex_t * mutex, clockid_t clock, const timespec *until) noexcept, clock,
            (mutex, clock, until))
CLDIST_WAIT(pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const timespec *until) noexcept,
            CLOCK_REALTIME, (lock, until))
CLDIST_WAIT(pthread_rwlock_clockrdlock,
            (pthread_rwlock_t * lock, clockid_t clock, const timespec *until) noexcept, clock,
            (lock, clock, until))
CLDIST_WAIT(pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const timespec *until) noexcept,
            CLOCK_REALTIME, (lock, until))
CLDIST_WAIT(pthread_rwlock_clockwrlock,
            (pthread_rwlock_t * lock, clockid_t clock, const timespec *until) noexcept, clock,
            (lock, clock, until))
#undef CLDIST_WAIT

CLDIST_IN_FRONT int clock_nanosleep(clockid_t clock, int flags, const timespec *until,
                                    timespec *left) {
    CLDIST_NEXT(clock_nanosleep);
    timespec moved{};
    return next(clock, flags,
                (flags & TIMER_ABSTIME) != 0
                    ? here(__builtin_return_address(0), clock, until, moved)
                    : until,
                left);
}
