#pragma once

#include <mutex>

namespace cldist::cluster {

/// Guards all of the platform: one call at a time, except for those that wait.
class ApiMutex {
public:
    void lock() {
        mutex_.lock();
        held_here_ = true;
    }
    bool try_lock() {
        if (!mutex_.try_lock()) return false;
        held_here_ = true;
        return true;
    }
    void unlock() {
        held_here_ = false;
        mutex_.unlock();
    }
    /// Whether the calling thread has it.
    [[nodiscard]] static bool held_here() { return held_here_; }

private:
    std::mutex mutex_;
    static thread_local bool held_here_;
};

ApiMutex &api_mutex();

/// Has it for as long as it lives. At its end those objects end that nobody holds any more.
class Locked {
public:
    Locked() { api_mutex().lock(); }
    Locked(const Locked &) = delete;
    Locked &operator=(const Locked &) = delete;
    ~Locked();
};

/// Leaves the lock for as long as it lives: for waiting.
class Unlocked {
public:
    Unlocked() { api_mutex().unlock(); }
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;
    ~Unlocked() { api_mutex().lock(); }
};

}  // namespace cldist::cluster
