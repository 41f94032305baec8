#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// The times of a command for clGetEventProfilingInfo: when it was queued, submitted and started,
/// and when it ended, in ns of its device's clock. Zeros if they are not known.
using Times = std::array<cl_ulong, 4>;

/// When and how something ends of which no native event of this process tells: a user event, a
/// command of another process, bytes on their way through the processes. Thread-safe.
class Ending {
public:
    using Then = std::function<void(cl_int status)>;

    /// CL_SUBMITTED before the end; then CL_COMPLETE or a negative code.
    [[nodiscard]] cl_int status() const { return status_.load(std::memory_order_acquire); }
    [[nodiscard]] bool over() const { return status() <= CL_COMPLETE; }

    /// The times of a command that has ended.
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
            ended_.notify_all();
        }
        call_all(std::move(then), status);
        return true;
    }
    /// Returns the status at the end.
    cl_int wait() const {
        // Not the atomic's wait, which yields before it sleeps: where others want the cores that
        // costs milliseconds.
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [&] { return over(); });
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
    // Not within each other: endings may hang on each other in long chains.
    static void call_all(std::vector<Then> then, cl_int status);

    std::atomic<cl_int> status_ = CL_SUBMITTED;
    Times times_{};  ///< before the status
    mutable std::mutex mutex_;
    mutable std::condition_variable ended_;
    std::vector<Then> then_;
};

inline bool is_open(const std::shared_ptr<Ending> &ending) {
    return ending != nullptr && !ending->over();
}
/// Ends when `ending` ends, and never fails. Null if it has ended.
std::shared_ptr<Ending> regardless_of_failure(const std::shared_ptr<Ending> &ending);
/// Ends once all, at least one, have ended, and fails if one has failed.
std::shared_ptr<Ending> all_of(std::span<const std::shared_ptr<Ending>> endings);
/// The same for two; null means an ending that has ended. Returns one of the two if the other has
/// ended.
std::shared_ptr<Ending> both(const std::shared_ptr<Ending> &a, const std::shared_ptr<Ending> &b);

}  // namespace cldist::cluster
