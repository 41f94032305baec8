#pragma once

#include <span>

#include "base/status.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// What this library needs to know of a command queue.
struct QueueInfo {
    cl_command_queue queue = nullptr;
    cl_context context = nullptr;
    cl_device_id device = nullptr;
    bool in_order = true;
    cl_mem placeholder = nullptr;  ///< any small buffer of the context, for an out-of-order queue
};

/// Enqueues and flushes a command that does nothing. Its event is complete when a command with this wait list may start.
Event enqueue_start(const QueueInfo &info, std::span<const cl_event> wait_list);

/// Stands for one command in the user's queue: an event that tells when the command may start, and one, the user's,
/// that ends when complete() is called.
///
/// On an in-order queue the former is a marker with the wait list, the latter a barrier that waits for an internal user
/// event, so that the queue stays in order. On an out-of-order queue both are migrations of a placeholder, so that
/// nothing else is held up: markers of PoCL 3.1 wait for all commands before them, whatever their wait list says.
///
/// Both events are retained until the status has passed through: PoCL 3.1 aborts if a failing command's event has no
/// reference left but its own.
class Bridge {
public:
    /// Enqueues and flushes; throws an Error if the platform refuses.
    Bridge(const QueueInfo &info, std::span<const cl_event> wait_list);
    Bridge(const Bridge &) = delete;
    Bridge &operator=(const Bridge &) = delete;
    ~Bridge();

    [[nodiscard]] cl_event start_event() const { return start_.get(); }
    [[nodiscard]] cl_event user_visible_event() const { return end_.get(); }

    /// Ends the command. Later calls do nothing.
    void complete(cl_int code);
    /// Whether the status has passed through, so that the events may be let go.
    [[nodiscard]] bool settled() const;

private:
    Context context_;
    Queue queue_;
    Event start_;
    Event done_;
    Event end_;
    bool completed_ = false;
};

}  // namespace cldist
