#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "api/arguments.hpp"
#include "pipeline/device_resources.hpp"

namespace cldist {

/// What the queue's device and context share, for a command that uses `buffers`, one or two; the queue learns what it needs of them.
std::shared_ptr<DeviceResources> resources_of(QueueInfo &queue, std::span<const cl_mem> buffers);

/// Whether the range is to be mapped while its command runs. Where a mapping is a copy, unmapping would write over what
/// lies between a strided region's rows.
/// `advice` is what a profile says of the command's route, or null.
bool may_map(const RangeArgument &range, const DeviceResources &resources, const Advice *advice);

/// The buffer and offset that an operation holds on to: of a sub-buffer its parent's, but on processors. NVIDIA's driver
/// 580 crashes when the last reference to a sub-buffer is released beside calls of other threads.
std::pair<cl_mem, std::size_t> held(const RangeArgument &range, const DeviceResources &resources);

/// See Engine::StartRule: commands on an in-order queue, or without wait list on an out-of-order queue, start in the order
/// of the calls.
cl_command_queue ordered_by(const QueueInfo &queue, const CommandArguments &command);

/// Held while a command's parts are enqueued and the engine learns of it: between those of one command on an in-order queue
/// there must be none of another's, and the engine's order must be the queue's. Queues may share one.
std::mutex &enqueueing_on(cl_command_queue queue);

/// Waits until the event has ended; whether it ended well.
bool wait_for(cl_event event);
/// The same for the start of a blocking command and all its mappings; the stall report names its transfers meanwhile.
bool wait_for_start(const Start &start, std::span<const std::shared_ptr<Record>> records);
/// What is thrown if that failed.
Error failed_wait();

/// clFinish, named by the stall report as in wait_for_start(). How what was in the queue ended is not known.
cl_int finish_named(cl_command_queue queue, std::span<const std::shared_ptr<Record>> records);

/// Ends a blocking command's mappings, `written` those of a command that writes the buffer.
void end_mappings(const QueueInfo &queue, std::span<const Mapping> mappings, bool written);

}  // namespace cldist
