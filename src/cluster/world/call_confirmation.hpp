#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "cluster/calls/call_log.hpp"

namespace cldist::cluster {

/// Holds the program's threads until their calls are known to be equal in all processes, and while
/// rank 0 decides on a new start. Any thread.
class CallConfirmation {
public:
    explicit CallConfirmation(CallLog &log) : log_(log) {}

    /// Without this call, wait() returns at once.
    void enable() { enabled_ = true; }
    /// Waits until this process's calls are confirmed. If that takes long, gives up, now and in all
    /// later calls. Does not give up if `differs`, or while rank 0 decides.
    void wait(const std::atomic<bool> &differs);
    /// Returns true if a call before `equal` must still be confirmed. Also if no thread waits.
    [[nodiscard]] bool is_due() const { return to_confirm() > equal_; }
    /// So many calls are equal in all processes.
    void note_equal(std::uint64_t equal);

    /// Rank 0 has asked for consent to a new start.
    void hold() { held_ = true; }
    [[nodiscard]] bool is_held() const { return held_; }
    /// Rank 0 has decided that the job goes on. Threads do not start it again.
    void go_on();
    [[nodiscard]] bool threads_settled() const { return threads_settled_; }

private:
    [[nodiscard]] std::uint64_t to_confirm() const;

    CallLog &log_;
    std::atomic<bool> enabled_{false};
    std::atomic<std::uint64_t> equal_{0};
    std::atomic<bool> held_{false};
    std::atomic<bool> threads_settled_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
};

}  // namespace cldist::cluster
