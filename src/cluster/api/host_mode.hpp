/// The host modes, and functions that several of them use.
#pragma once

#include <span>

#include "cluster/execution/host_mode.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// This process's mode.
inline const HostMode &host_mode() { return World::mode(); }
/// The program runs in every process.
const HostMode &replicated_mode();
/// The program runs only in this process.
const HostMode &central_mode();
/// The program runs only in another process.
const HostMode &follower_mode();

/// Whether the event is a user event, or its command's device belongs to this process.
bool is_mine(const EventObject &event);
/// The process of the command's device.
inline Process owner_of(const EventObject &event) { return event.queue->device->process; }

void flush_queues_of(const EventObject &event);
/// Waits until the results that the event promises are in the program's memory, which the program
/// may use as soon as it sees the end, and until the calls are confirmed (Job::confirm_calls()).
/// `status` is that of the event's end; a failed command promises nothing. Not under the lock.
void wait_for_promise(const EventObject &event, cl_int status);
/// Transfers the results of a blocking command on the calling thread. Not under the lock.
void drive_results(EventObject &event);
/// Returns CL_COMPLETE or, if commands have failed, the lowest of their codes.
cl_int first_failure_of(std::span<const Ref<EventObject>> events);

}  // namespace cldist::cluster
