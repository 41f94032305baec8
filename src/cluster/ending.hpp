#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// What clGetEventProfilingInfo tells of a command: when it was queued, submitted and started, and when it ended, in ns of its
/// device's clock. Zeros if they are not known.
using Times = std::array<cl_ulong, 4>;

/// When and how something ends of which no native event of this process tells: a user event, a command of another
/// process, bytes on their way through the processes. Thread-safe.
class Ending {
public:
    using Then = std::function<void(cl_int status)>;

    /// CL_SUBMITTED before the end; then CL_COMPLETE or a negative code.
    [[nodiscard]] cl_int status() const { return status_.load(std::memory_order_acquire); }
    [[nodiscard]] bool over() const { return status() <= CL_COMPLETE; }

    /// Of a command that is over.
    [[nodiscard]] const Times &times() const { return times_; }

    /// Ends it; a second call does nothing and returns false.
    bool set(cl_int status, const Times &times = {}) {
        std::vector<Then> then;
        {
            const std::lock_guard lock(mutex_);
            if (over()) return false;
            times_ = times;
            status_.store(status, std::memory_order_release);
            then.swap(then_);
        }
        status_.notify_all();
        for (const Then &call : then) call(status);
        return true;
    }
    /// Returns the status at the end.
    cl_int wait() const {
        status_.wait(CL_SUBMITTED, std::memory_order_acquire);
        return status();
    }
    /// Calls `call` at the end, on whatever thread ends it; now, if it is over.
    void then(Then call) {
        {
            const std::lock_guard lock(mutex_);
            if (!over()) {
                then_.push_back(std::move(call));
                return;
            }
        }
        call(status());
    }

private:
    std::atomic<cl_int> status_ = CL_SUBMITTED;
    Times times_{};  ///< before the status
    std::mutex mutex_;
    std::vector<Then> then_;
};

}  // namespace cldist::cluster
