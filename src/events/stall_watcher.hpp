#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace cldist {

/// A thread that reports commands without progress. The progress thread cannot, because it may be
/// blocked in an MPI call.
class StallWatcher {
public:
    /// Reports commands without progress for `stall_seconds`; 0: reports nothing.
    explicit StallWatcher(double stall_seconds);
    ~StallWatcher() { stop(); }
    /// Ends the thread.
    void stop();

    /// The time between two checks.
    [[nodiscard]] std::chrono::duration<double> tick() const { return tick_; }

private:
    void watch();

    const double stall_seconds_;
    const std::chrono::duration<double> tick_;
    std::mutex mutex_;
    std::condition_variable stopped_;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace cldist
