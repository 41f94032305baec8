#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "base/clock.hpp"
#include "events/record.hpp"

namespace cldist {

/// Counts the commands of a progress thread. Thread-safe.
class CommandCounts {
public:
    /// Counts a command. `later`: it waits for its start. Returns true if there was none before.
    bool add(bool later) {
        if (later) ++later_;
        return all_++ == 0;
    }
    /// Call it for each ended command that has waited for its start, before remove().
    void end_later() { --later_; }
    /// Call it after this many commands have ended.
    void remove(std::size_t ended) {
        const std::lock_guard lock(mutex_);
        all_ -= ended;
        if (all_ == 0) none_left_.notify_all();
    }
    /// Call it after all commands have ended.
    void clear() {
        const std::lock_guard lock(mutex_);
        all_ = 0;
        later_ = 0;
        none_left_.notify_all();
    }

    /// The number of commands that have not ended.
    [[nodiscard]] std::size_t all() const { return all_; }
    /// The number of these that have waited, or wait, for their start.
    [[nodiscard]] std::size_t later() const { return later_; }
    /// See ProgressThread::wait_idle().
    bool wait_none(double patience_seconds) {
        const std::uint64_t begin = now_ns();
        std::unique_lock lock(mutex_);
        while (
            !none_left_.wait_for(lock, std::chrono::milliseconds(10), [&] { return all_ == 0; })) {
            const std::uint64_t since = std::max(begin, pending_records().last_progress());
            const std::uint64_t now = now_ns();
            if (patience_seconds > 0 && now > since &&
                static_cast<double>(now - since) * 1e-9 > patience_seconds)
                return false;
        }
        return true;
    }

private:
    std::mutex mutex_;  ///< locked when `all_` becomes 0
    std::condition_variable none_left_;
    std::atomic<std::size_t> all_ = 0;
    std::atomic<std::size_t> later_ = 0;
};

}  // namespace cldist
