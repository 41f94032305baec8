#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <type_traits>

namespace cldist::cluster {

/// Guards the whole platform: one call at a time, except for waiting calls.
class ApiMutex {
public:
    void lock() {
        if (!lock_soon()) mutex_.lock();
        owner_.store(pthread_self(), std::memory_order_relaxed);
    }
    bool try_lock() {
        if (!mutex_.try_lock()) return false;
        owner_.store(pthread_self(), std::memory_order_relaxed);
        return true;
    }
    void unlock() {
        owner_.store(0, std::memory_order_relaxed);
        mutex_.unlock();
    }
    /// Whether the calling thread holds it.
    [[nodiscard]] bool held_here() const {
        return owner_.load(std::memory_order_relaxed) == pthread_self();
    }

private:
    // Most calls hold the lock for a shorter time than a thread takes to sleep and wake up.
    bool lock_soon() {
        constexpr int tries = 200;
        for (int n = 0; n < tries; ++n) {
            if (owner_.load(std::memory_order_relaxed) == 0 && mutex_.try_lock()) return true;
            relax();
        }
        return false;
    }
    static void relax() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("isb");
#endif
    }

    std::mutex mutex_;
    std::atomic<pthread_t> owner_ = 0;
};

inline constinit ApiMutex the_api_mutex;
static_assert(std::is_trivially_destructible_v<ApiMutex>,
              "the program's objects may outlive its main");
inline ApiMutex &api_mutex() { return the_api_mutex; }

/// Whether there are objects that nobody holds.
inline std::atomic<bool> some_dropped = false;
/// Both end them. The first is called under the lock. The second takes the lock unless another
/// thread holds it, which will end them.
void end_dropped_here();
void end_dropped();

/// Has it for as long as it lives. At its end those objects end that nobody holds any more.
class Locked {
public:
    Locked() { api_mutex().lock(); }
    Locked(const Locked &) = delete;
    Locked &operator=(const Locked &) = delete;
    ~Locked() {
        if (some_dropped) end_dropped_here();
        api_mutex().unlock();
        if (some_dropped) end_dropped();
    }
};

/// Whether other processes follow the calls of this one, or this one theirs (central host): what
/// calls decide must then be decided in the order in which they took the lock. Set before there are
/// objects.
inline std::atomic<bool> calls_are_followed = false;

/// How many calls have left the lock to wait. Changes under the lock.
inline std::atomic<unsigned> waiting_calls = 0;

/// Leaves the lock for as long as it lives: for waiting.
class Unlocked {
public:
    Unlocked() {
        ++waiting_calls;
        api_mutex().unlock();
    }
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;
    ~Unlocked() {
        api_mutex().lock();
        if (--waiting_calls == 0) waiting_calls.notify_all();
    }
};

/// The same, unless calls are followed: in the middle of what a call decides.
class UnlockedWithin {
public:
    UnlockedWithin() {
        if (!keeps_) api_mutex().unlock();
    }
    UnlockedWithin(const UnlockedWithin &) = delete;
    UnlockedWithin &operator=(const UnlockedWithin &) = delete;
    ~UnlockedWithin() {
        if (!keeps_) api_mutex().lock();
    }

private:
    const bool keeps_ = calls_are_followed;
};

}  // namespace cldist::cluster
