/// The host modes, and what several of them do.
#pragma once

#include <span>

#include "cluster/execution/host_mode.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// This process's mode.
inline const HostMode &host_mode() { return World::get().executor().mode(); }
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
/// For an event that ended with `status`: the program may use the memory as soon as it sees the
/// end. A failed command promises nothing. Not under the lock.
void wait_for_promise(const EventObject &event, cl_int status);
/// Transfers the result of a blocking command by the calling thread. Not under the lock.
void drive_result(EventObject &event);
void drive_results_of_parts(const EventObject &event);
/// CL_COMPLETE, or the least code of the commands that have failed.
cl_int first_failure_of(std::span<const Ref<EventObject>> events);

}  // namespace cldist::cluster
