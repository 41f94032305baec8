#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "events/record.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// The properties of a command queue that this library uses.
struct QueueInfo {
    cl_command_queue queue = nullptr;
    cl_context context = nullptr;
    cl_device_id device = nullptr;
    bool in_order = true;
    /// Any small buffer of the context if markers do not work on the device's out-of-order queues.
    /// Otherwise null.
    cl_mem placeholder = nullptr;
    /// A CPU device: mapping moves no data.
    bool is_cpu = false;
    /// See HostAddresses::last().
    bool addresses_last = false;
};

/// A range of a buffer that must be in host memory while a command runs.
struct Mapping {
    cl_mem buffer;
    std::size_t offset;      ///< bytes
    std::size_t size;        ///< bytes, at least 1
    cl_map_flags flags;      ///< CL_MAP_READ or CL_MAP_WRITE
    void *memory = nullptr;  ///< address of the range; null if the platform refused
    /// If not null, the range is copied to this memory of the library (CL_MAP_READ) or from it
    /// (CL_MAP_WRITE) instead of being mapped. Before the copy back, the command fills the whole
    /// range.
    std::shared_ptr<std::byte> staging = nullptr;
    /// `memory` is the buffer's persistent mapping. No command maps or unmaps it.
    bool lasting = false;
};

/// The events that show when a command may start.
struct Start {
    std::vector<Event> events;  ///< keep them until they are complete
    cl_event gate = nullptr;    ///< the command may start when this event of `events` is complete
    cl_event last = nullptr;    ///< all are complete when this event of `events` is complete
    WaitList wait_list;
    /// An event of the wait list failed while the command was enqueued. The gate may then never
    /// end.
    bool failed = false;
};

/// Calls clSetUserEventStatus() under a lock. When an event fails, PoCL fails the waiting commands
/// on the calling thread. PoCL aborts if another thread ends or enqueues the same command at that
/// moment. Any thread.
void set_user_event(cl_event event, cl_int status);

/// NVIDIA's driver (580) removes a failed command from an in-order queue some time after the
/// failure is visible. Commands enqueued in between fail, too. Reads failed in 20 to 70 of 100
/// rounds, and never 0.1 ms later.
constexpr std::chrono::microseconds settling_time{500};

using FailureLock = std::unique_lock<std::recursive_mutex>;
/// While the lock is held, no other thread's set_user_event() ends an event. Hold it to enqueue a
/// command that may fail.
[[nodiscard]] FailureLock hold_failures();

/// Fills `memory` of the mappings from persistent mappings. Returns true if all are known.
bool find_lasting(const QueueInfo &info, std::span<Mapping> mappings);

/// Enqueues the mappings, or an internal command if there are none, and flushes.
Start enqueue_start(const QueueInfo &info, std::span<const cl_event> wait_list,
                    std::span<Mapping> mappings);

/// Enqueues the unmapping of all mappings that have memory, or the copies back, and flushes. If
/// `after` is not null, the commands wait for it. Returns zero to two events. The last event is
/// complete when all mappings are unmapped.
std::vector<Event> enqueue_unmap(const QueueInfo &info, cl_event after,
                                 std::span<const Mapping> mappings);

/// Represents one command in the user's queue. Its start event shows when the command may start.
/// The user's event ends when complete() is called.
///
/// On an in-order queue the start event is a marker with the wait list. The user's event is a
/// barrier that waits for an internal user event, so the queue stays in order. On an out-of-order
/// queue both are markers, so no other command waits. PoCL's markers wait for all commands before
/// them, even with a wait list. On PoCL, migrations of a placeholder therefore replace the markers.
///
/// Mappings replace the start command, and their unmapping replaces the end command, in the user's
/// queue. The progress thread then enqueues no commands for them. On a device that computes and
/// copies with the same cores, such commands would wait for kernels. On other devices they would
/// cost two more round trips through the driver.
///
/// Except on PoCL, a copy back never waits for an event that fails. Otherwise NVIDIA's driver (580)
/// never returns from the release of the context. The command's status has a separate user event
/// after the copies. If the command fails, the copies write the current bytes, and the command ends
/// after them.
///
/// The bridge retains all events until the status has passed through. PoCL 3.1 aborts if only PoCL
/// holds a reference to the event of a failing command.
class Bridge {
public:
    /// Enqueues the commands, flushes, and fills the mappings' memory. `enqueue_between` enqueues
    /// commands between the start and the user's event. Throws an Error if the platform refuses.
    Bridge(const QueueInfo &info, std::span<const cl_event> wait_list, std::span<Mapping> mappings,
           const std::function<void()> &enqueue_between = {});
    /// For a command in no queue: creates only an event of `context`. The command may start when
    /// `start` allows it, or at once if `start` has no gate.
    explicit Bridge(cl_context context, Start start = {});
    /// For a command without event. It may start when `start` is complete.
    explicit Bridge(cl_event start);
    Bridge(const Bridge &) = delete;
    Bridge &operator=(const Bridge &) = delete;
    ~Bridge();

    [[nodiscard]] const Start &start() const { return start_; }
    /// The execution status of the gate. At CL_COMPLETE the command may start.
    [[nodiscard]] cl_int start_status() const;
    /// Returns true if the command may end. A mapping after the gate must be complete before it is
    /// unmapped. Neither an out-of-order queue nor a failed unmapping ensures this.
    [[nodiscard]] bool may_end() const;
    [[nodiscard]] bool has_user_visible_event() const { return !end_.empty(); }
    [[nodiscard]] cl_event user_visible_event() const { return end_.back().get(); }

    /// Ends the command with `code`. A failed command may end only in ended(). Later calls do
    /// nothing.
    void complete(cl_int code);
    /// Returns true if the end is visible to the user. After complete(), call it until it returns
    /// true.
    [[nodiscard]] bool ended();
    /// Returns true if the status has passed through. The events may then be released.
    [[nodiscard]] bool settled() const;
    /// Returns true if complete() makes the queue read memory of the library. This memory is in use
    /// until settled() is true.
    [[nodiscard]] bool copies_back() const { return copies_back_; }

private:
    /// A range that the queue copies back from `memory` after complete().
    struct CopyBack {
        Mem buffer;
        std::size_t offset;  ///< bytes
        std::size_t size;    ///< bytes
        void *memory;
    };

    bool read_what_is_written_back() const;
    void copy_back();

    Device device_;  ///< held because PoCL 3.1 frees a sub-device that still has queues
    Context context_;
    Queue queue_;
    Event before_;  ///< null, or complete when the earlier commands of the queue have ended
    Start start_;
    Event done_;
    Event result_;  ///< null, or the user event with the status; end_.back() waits for it and for
                    ///< the copies back,
                    /// which wait for done_
    std::vector<Event> end_;
    std::vector<std::shared_ptr<std::byte>> staging_;
    bool copies_back_ = false;
    std::vector<CopyBack> written_back_;  ///< only if there is result_
    bool completed_ = false;
    cl_int failure_ = CL_SUCCESS;  ///< the status for result_ after the copies back
    bool copying_ = false;         ///< the copies back of the failed command were started
};

}  // namespace cldist
