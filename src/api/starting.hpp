#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "api/arguments.hpp"
#include "events/bridge.hpp"
#include "pipeline/device_resources.hpp"

namespace cldist {

/// Returns the resources of the queue's device and context for a command on `buffers` (one or two),
/// and sets the members of `queue` that depend on them.
std::shared_ptr<DeviceResources> resources_of(QueueInfo &queue, std::span<const cl_mem> buffers);

/// Returns true if the range should be mapped while its command runs. A strided region is mapped
/// only if mappings are not copies, because unmapping a copy would overwrite the bytes between its
/// rows. `advice` is the profile's advice for the command's route, or null.
bool may_map(const RangeArgument &range, const DeviceResources &resources, const Advice *advice);

/// The buffer and offset that an operation keeps. For a sub-buffer it is the parent, except on CPU
/// devices: see is_safe_in_kernels().
std::pair<cl_mem, std::size_t> held(const RangeArgument &range, const DeviceResources &resources);

/// See StartRule. Commands on an in-order queue, and commands without wait list on
/// an out-of-order queue, start in the order of the calls.
cl_command_queue ordered_by(const QueueInfo &queue, const CommandArguments &command);

/// Held while a command is enqueued and submitted to the progress thread. The OpenCL commands of
/// one command must be contiguous on an in-order queue, and the progress thread's order must be the
/// queue's order. Several queues may share a mutex. Also holds lock_failures() for the queue.
class Enqueueing {
public:
    explicit Enqueueing(const QueueInfo &queue);
    void unlock();

private:
    // Locked first, because set_user_event() holds it and may run callbacks, which enqueue
    // commands.
    FailureLock failures_;
    std::unique_lock<std::mutex> commands_;
};

/// Waits for the event. Returns true if it succeeded.
bool wait_for(cl_event event);
/// The same for a blocking command's start and mappings. The stall report lists `records`
/// meanwhile.
bool wait_for_start(const Start &start, std::span<const std::shared_ptr<Record>> records);
/// The status of a command whose wait failed.
Status failed_wait();

/// Calls clFinish. Meanwhile the stall report lists `records`. The result does not show whether
/// earlier commands of the queue failed.
cl_int finish_named(cl_command_queue queue, std::span<const std::shared_ptr<Record>> records);

/// Unmaps a blocking command's mappings. `written`: the command writes the buffer.
void end_mappings(const QueueInfo &queue, std::span<const Mapping> mappings, bool written);

}  // namespace cldist
