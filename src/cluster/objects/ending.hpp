#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// The times for clGetEventProfilingInfo at which a command was queued, submitted, started and
/// ended, in ns of the device's clock. Zeros if they are unknown.
using Times = std::array<cl_ulong, 4>;

/// The end of a user event, command or transfer, independent of native events. Thread-safe.
class Ending {
public:
    using Then = std::function<void(cl_int status)>;

    /// CL_SUBMITTED before the end; then CL_COMPLETE or a negative error code.
    [[nodiscard]] cl_int status() const { return status_.load(std::memory_order_acquire); }
    [[nodiscard]] bool over() const { return status() <= CL_COMPLETE; }

    /// The times of a command that has ended.
    [[nodiscard]] const Times &times() const { return times_; }

    /// Sets the final status, and runs the functions that then() was given on the calling thread. A
    /// second call does nothing and returns false.
    bool set(cl_int status, const Times &times = {}) {
        std::vector<Then> then;
        {
            const std::lock_guard lock(mutex_);
            if (over()) return false;
            times_ = times;
            status_.store(status, std::memory_order_release);
            then.swap(then_);
            ended_.notify_all();
        }
        call_all(std::move(then), status);
        return true;
    }
    /// Blocks until the end. Returns the final status.
    cl_int wait() const {
        // Not the atomic's wait(), which yields first: on busy cores that costs milliseconds.
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [&] { return over(); });
        return status();
    }
    /// Calls `call` at the end, on the thread that calls set(). Calls it at once after the end.
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
    // Calls that end further endings are not nested, because chains of endings may be long.
    static void call_all(std::vector<Then> then, cl_int status);

    std::atomic<cl_int> status_ = CL_SUBMITTED;
    Times times_{};  ///< written before the final status
    mutable std::mutex mutex_;
    mutable std::condition_variable ended_;
    std::vector<Then> then_;
};

/// Returns an ending that has ended.
inline std::shared_ptr<Ending> ended(cl_int status, const Times &times = {}) {
    auto ending = std::make_shared<Ending>();
    ending->set(status, times);
    return ending;
}
inline bool is_open(const std::shared_ptr<Ending> &ending) {
    return ending != nullptr && !ending->over();
}
/// An ending that may be set later: at most once, by a thread with the lock, while other threads
/// read it without the lock. Then it does not change.
class LateEnding {
public:
    LateEnding() = default;
    LateEnding(std::shared_ptr<Ending> ending) { *this = std::move(ending); }
    // Only before other threads know it.
    LateEnding(LateEnding &&other) noexcept { *this = std::move(other.ending_); }
    LateEnding &operator=(LateEnding &&other) noexcept { return *this = std::move(other.ending_); }

    LateEnding &operator=(std::shared_ptr<Ending> ending) {
        ending_ = std::move(ending);
        is_set_.store(ending_ != nullptr, std::memory_order_release);
        return *this;
    }
    /// Null if it has not been set.
    [[nodiscard]] const std::shared_ptr<Ending> &get() const {
        static const std::shared_ptr<Ending> none;
        return is_set_.load(std::memory_order_acquire) ? ending_ : none;
    }

private:
    std::shared_ptr<Ending> ending_;
    std::atomic<bool> is_set_ = false;
};

/// Ends when `ending` ends, and never fails. Null if it has ended.
std::shared_ptr<Ending> regardless_of_failure(const std::shared_ptr<Ending> &ending);
/// Ends when all `endings` have ended, at least one. Fails if one of them has failed.
std::shared_ptr<Ending> all_of(std::span<const std::shared_ptr<Ending>> endings);
/// The same for two endings. Null is an ending that has ended, also as the result. Returns one of
/// the two if the other has ended, whatever its status.
std::shared_ptr<Ending> both(const std::shared_ptr<Ending> &a, const std::shared_ptr<Ending> &b);

}  // namespace cldist::cluster
