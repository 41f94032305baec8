#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "api/arguments.hpp"
#include "pipeline/device_resources.hpp"

namespace cldist {

/// Returns the resources of the queue's device and context for a command that uses `buffers` (one
/// or two). Completes `queue`.
std::shared_ptr<DeviceResources> resources_of(QueueInfo &queue, std::span<const cl_mem> buffers);

/// Returns true if the range should be mapped while its command runs. If a mapping is a copy,
/// unmapping would overwrite the bytes between a strided region's rows. `advice` is the profile's
/// advice for the command's route, or null.
bool may_map(const RangeArgument &range, const DeviceResources &resources, const Advice *advice);

/// The buffer and offset that an operation keeps. For a sub-buffer it is the parent, except on CPU
/// devices. NVIDIA's driver (580) crashes if the last reference to a sub-buffer is released while
/// other threads call it.
std::pair<cl_mem, std::size_t> held(const RangeArgument &range, const DeviceResources &resources);

/// See ProgressThread::StartRule. Commands on an in-order queue, and commands without wait list on
/// an out-of-order queue, start in the order of the calls.
cl_command_queue ordered_by(const QueueInfo &queue, const CommandArguments &command);

/// Held while a command is enqueued and submitted to the progress thread. The OpenCL commands of
/// one command must be contiguous on an in-order queue, and the progress thread's order must be the
/// queue's order. Several queues may share a mutex.
std::mutex &enqueueing_on(cl_command_queue queue);

/// Waits until the event has ended. Returns true if it succeeded.
bool wait_for(cl_event event);
/// The same for the start of a blocking command and all its mappings. The stall report lists its
/// transfers meanwhile.
bool wait_for_start(const Start &start, std::span<const std::shared_ptr<Record>> records);
/// The status of a command whose wait failed.
Status failed_wait();

/// Calls clFinish. The stall report lists the transfers meanwhile, as in wait_for_start(). It does
/// not show whether earlier commands of the queue failed.
cl_int finish_named(cl_command_queue queue, std::span<const std::shared_ptr<Record>> records);

/// Ends a blocking command's mappings. `written`: the command writes the buffer.
void end_mappings(const QueueInfo &queue, std::span<const Mapping> mappings, bool written);

}  // namespace cldist
