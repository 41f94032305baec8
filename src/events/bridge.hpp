#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "events/record.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// The properties of a command queue that this library uses.
struct QueueInfo {
    cl_command_queue queue = nullptr;
    cl_context context = nullptr;
    cl_device_id device = nullptr;
    bool in_order = true;
    /// A small buffer of the context if Quirks::markers_wait_for_all. Otherwise null.
    cl_mem placeholder = nullptr;
    /// A CPU device: mapping moves no data.
    bool is_cpu = false;
    /// See HostAddresses::persist().
    bool addresses_persist = false;
    /// If markers report their ends late, a buffer that a start command reads to `start_target`
    /// instead. Otherwise null.
    cl_mem start_source = nullptr;
    std::shared_ptr<std::byte> start_target = nullptr;
};

/// A range of a buffer that must be in host memory while a command runs.
struct Mapping {
    cl_mem buffer;
    std::size_t offset;      ///< bytes
    std::size_t size;        ///< bytes, at least 1
    cl_map_flags flags;      ///< CL_MAP_READ or CL_MAP_WRITE
    void *memory = nullptr;  ///< address of the range; null if the platform refused
    /// If not null, the range is not mapped but copied to this memory of the library (CL_MAP_READ)
    /// or from it (CL_MAP_WRITE). Before a copy from it, the command fills the whole range.
    std::shared_ptr<std::byte> staging = nullptr;
    /// `memory` is the buffer's persistent mapping. No command maps or unmaps it.
    bool persistent = false;
};

/// The events that show when a command may start.
struct Start {
    std::vector<Event> events;  ///< to be kept until they are complete
    cl_event gate = nullptr;    ///< one of `events`: the command may start when it is complete
    cl_event last = nullptr;    ///< one of `events`: when it is complete, all are
    /// Null, or not zero when the command may start, even if the gate is not complete.
    const std::atomic<std::uint32_t> *running = nullptr;
    WaitList wait_list;
    std::shared_ptr<std::byte> target = nullptr;  ///< memory to which one of `events` reads
    /// An event of the wait list failed while the command was enqueued. The gate may then never
    /// complete.
    bool failed = false;
};

/// Enqueues a command with the wait list, and returns its event and `Start::running`.
using EnqueueFirst = std::function<std::pair<Event, const std::atomic<std::uint32_t> *>(
    std::span<const cl_event> wait_list)>;
/// Enqueues a command that waits for `done`, and returns its event.
using EnqueueLast = std::function<Event(cl_event done)>;

/// Calls clSetUserEventStatus() under the lock of lock_failures(). An event that fails may abort
/// the program if another thread ends or enqueues a command that waits for it at that moment
/// (Quirks::uses_ended_events). Any thread.
void set_user_event(cl_event event, cl_int status);

using FailureLock = std::unique_lock<std::recursive_mutex>;
/// While the lock is held, set_user_event() ends no event on another thread. Hold it to enqueue a
/// command that may fail.
[[nodiscard]] FailureLock lock_failures();
/// The same where commands of the extension library may fail and the platform needs it. Otherwise
/// takes no lock.
[[nodiscard]] FailureLock lock_failures(const QueueInfo &info);

/// Sets `memory` of the mappings to their persistent mappings. Returns true if all are known.
bool find_persistent(const QueueInfo &info, std::span<Mapping> mappings);

/// Enqueues an internal command that waits for what any command with this wait list would wait for.
Event enqueue_stand_in(const QueueInfo &info, std::span<const cl_event> wait_list);
/// Enqueues a native command that does nothing and, in an out-of-order queue, waits only for
/// `waits`. Markers there wait for all earlier commands if their wait list is empty, or with
/// Quirks::markers_wait_for_all.
cl_int enqueue_marker_behind(const QueueInfo &info, const WaitArguments &waits, cl_event *event);
/// Enqueues the mappings, or an internal command if there are none, and flushes.
Start enqueue_start(const QueueInfo &info, std::span<const cl_event> wait_list,
                    std::span<Mapping> mappings);

/// Enqueues the unmapping, or the copy back, of all mappings that have memory, and flushes. If
/// `after` is not null, the commands wait for it. Returns zero to two events. When the last one is
/// complete, all commands are.
std::vector<Event> enqueue_unmap(const QueueInfo &info, cl_event after,
                                 std::span<const Mapping> mappings);

/// Represents one command in the user's queue. Its start event shows when the command may start.
/// The user's event ends when complete() is called.
///
/// On an in-order queue, the start event is a marker with the wait list, or a small read with
/// Quirks::reports_markers_late. The user's event is a barrier that waits for an internal user
/// event, so the queue stays in order. On an out-of-order queue, both are markers, so no other
/// command waits. With Quirks::markers_wait_for_all, migrations of a placeholder replace them.
///
/// Mapping the buffers replaces the start command, and unmapping them replaces the end command, in
/// the user's queue. The progress thread then enqueues no commands for them. On a device that
/// computes and copies with the same cores, such commands would wait for kernels. On other devices,
/// they would cost two more round trips through the driver. The kernels of a message replace both
/// commands, too.
///
/// With Quirks::hangs_after_failed_writes, a copy back never waits for an event that fails. A
/// separate user event after the copies carries the command's status. If the command fails, the
/// copies write the buffer's current bytes, and the command ends after them.
///
/// The bridge retains all events until the status has passed through
/// (Quirks::uses_ended_events).
class Bridge {
public:
    /// Enqueues the commands, flushes, and sets the mappings' memory. Without mappings, `first` and
    /// `last` may replace the start command and the end command. Throws an Error if the platform
    /// refuses.
    Bridge(const QueueInfo &info, std::span<const cl_event> wait_list, std::span<Mapping> mappings,
           const EnqueueFirst &first = {}, const EnqueueLast &last = {});
    /// For a command without queue: creates only an event of `context`. The command may start when
    /// `start` allows it, or at once if `start` has no gate.
    explicit Bridge(cl_context context, Start start = {});
    /// For a command without event. It may start when `start` is complete.
    explicit Bridge(cl_event start);
    Bridge(const Bridge &) = delete;
    Bridge &operator=(const Bridge &) = delete;
    ~Bridge() { end_now(); }

    [[nodiscard]] const Start &start() const { return start_; }
    /// The execution status of the gate. When it is CL_COMPLETE, the command may start.
    [[nodiscard]] cl_int start_status() const;
    /// Returns true if the command may end. Mappings must be complete before they are unmapped,
    /// which neither an out-of-order queue nor a failed unmapping ensures.
    [[nodiscard]] bool may_end() const;
    [[nodiscard]] bool has_user_visible_event() const { return !end_.empty(); }
    [[nodiscard]] cl_event user_visible_event() const { return end_.back().get(); }

    /// Ends the command with `code`. The end of a failed command becomes visible in ended().
    void complete(cl_int code);
    /// Advances the end after complete(), and returns true if it is visible to the user. Call it
    /// until it returns true.
    [[nodiscard]] bool ended();
    /// Makes the end visible if nobody calls ended() any more. Abandons a command that is not
    /// complete.
    void end_now();
    /// Returns true if the platform has completed all commands of the bridge. The events may then
    /// be released.
    [[nodiscard]] bool settled() const;
    /// Returns true if complete() makes the queue read memory of the library, which is then in use
    /// until settled() returns true.
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

    Device device_;  ///< held because of Quirks::frees_sub_devices_early
    Context context_;
    Queue queue_;
    Event before_;  ///< null, or a marker behind the earlier commands of the queue
    Start start_;
    Event done_;  ///< the user event for which the commands of `end_` wait
    /// Null, or a user event with the status. Then only the copies back wait for done_, and
    /// end_.back() waits for them and for result_.
    Event result_;
    std::vector<Event> end_;  ///< the last one is the user's event
    std::vector<std::shared_ptr<std::byte>> staging_;
    bool copies_back_ = false;
    std::vector<CopyBack> written_back_;  ///< empty without result_
    bool completed_ = false;
    cl_int failure_ = CL_SUCCESS;  ///< the status for result_ after the copies back
    bool copying_ = false;         ///< the failed command's copies back were started
};

}  // namespace cldist
