#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace cldist {

/// Wakes one waiting thread. If no thread waits, the next wait returns at once.
class Wakeup {
public:
    void wake() {
        const std::lock_guard lock(mutex_);
        woken_ = true;
        changed_.notify_one();
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return std::exchange(woken_, false); });
    }
    void wait_for(std::chrono::nanoseconds most) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, most, [&] { return std::exchange(woken_, false); });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool woken_ = false;
};

}  // namespace cldist
