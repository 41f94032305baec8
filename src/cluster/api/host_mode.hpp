/// How the program learns the ends of commands: one object per host mode.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// What calls that wait for commands, or query them, do in this process. Its functions are called under the lock.
class HostMode {
public:
    /// Waits, in a call, until the program may know how all the events end. Returns the least status of them, or nothing
    /// if this process does not wait.
    [[nodiscard]] virtual std::optional<cl_int> wait(const CallHash &call,
                                                     std::span<const Ref<EventObject>> events) const = 0;
    /// Whether the result of a command arrives in this process, so that it need not wait().
    [[nodiscard]] virtual bool gets_result(const EventObject &event) const = 0;
    /// The status that clGetEventInfo returns.
    [[nodiscard]] virtual cl_int status(EventObject &event) const = 0;
    /// The times that clGetEventProfilingInfo returns; zeros if the command has not ended.
    [[nodiscard]] virtual Times times(EventObject &event) const = 0;
    /// Waits, in clFinish, until the queue's commands have ended.
    virtual void finish(const Ref<QueueObject> &queue) const = 0;
    /// After clFinish: no command of the queue waits for user events.
    virtual void forget_user_events(QueueObject &queue) const { queue.user_events = {}; }

protected:
    ~HostMode() = default;
};

/// This process's mode.
const HostMode &host_mode();
/// The program runs in every process.
const HostMode &replicated_mode();
/// It runs in this process alone.
const HostMode &central_mode();
/// It runs in another process alone.
const HostMode &follower_mode();

/// Whether the event is a user event, or its command's device is this process's.
bool is_mine(const EventObject &event);
/// The process of the command's device.
inline Process owner_of(const EventObject &event) { return event.queue->device->process; }

void flush_queue_of(const EventObject &event);
/// For an event that ended with `status`: the program may use the memory as soon as it sees the end. A failed command
/// promises nothing. Not under the lock.
void wait_for_promise(const EventObject &event, cl_int status);
/// Transfers the result of a blocking command by the calling thread. Not under the lock.
void drive_result(EventObject &event);
void drive_results_of_parts(const EventObject &event);
/// CL_COMPLETE, or the least code of the commands that have failed.
cl_int first_failure_of(std::span<const Ref<EventObject>> events);

}  // namespace cldist::cluster
