#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <type_traits>

namespace cldist::cluster {

/// The lock of the whole platform. OpenCL calls hold it, except while they wait. Not recursive.
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
    /// Whether the calling thread holds the lock.
    [[nodiscard]] bool held_here() const {
        return owner_.load(std::memory_order_relaxed) == pthread_self();
    }

private:
    // Spins, because most calls hold the lock for less time than sleeping and waking takes.
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

/// Whether objects without holders wait to be freed (end_later()).
inline std::atomic<bool> some_dropped = false;
/// Both free these objects. The first is called under the lock. The second takes the lock, unless
/// another thread holds it, which will then free them.
void end_dropped_here();
void end_dropped();

/// Holds the lock for its lifetime. Its destructor frees objects without holders.
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

/// The number of calls that have released the lock to wait. Changed under the lock.
inline std::atomic<unsigned> waiting_calls = 0;

/// Releases the lock for its lifetime, for calls that wait.
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

/// Whether a call has released the lock in the middle of its decisions. Changed under the lock.
inline std::atomic<bool> call_is_undecided = false;

/// Other calls that all processes make wait for its lifetime, because decisions depend on the order
/// of calls. Construct and destroy it under the lock.
class Undecided {
public:
    Undecided() { call_is_undecided = true; }
    Undecided(const Undecided &) = delete;
    Undecided &operator=(const Undecided &) = delete;
    ~Undecided() {
        call_is_undecided = false;
        call_is_undecided.notify_all();
    }
};

/// Releases the lock in the middle of a call's decisions, if `leaves`.
class UnlockedWithin {
public:
    explicit UnlockedWithin(bool leaves) {
        if (!leaves) return;
        undecided_.emplace();
        api_mutex().unlock();
    }
    UnlockedWithin(const UnlockedWithin &) = delete;
    UnlockedWithin &operator=(const UnlockedWithin &) = delete;
    ~UnlockedWithin() {
        if (undecided_) api_mutex().lock();
    }

private:
    std::optional<Undecided> undecided_;
};

}  // namespace cldist::cluster
