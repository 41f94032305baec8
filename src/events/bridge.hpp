#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "events/record.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// What this library needs to know of a command queue.
struct QueueInfo {
    cl_command_queue queue = nullptr;
    cl_context context = nullptr;
    cl_device_id device = nullptr;
    bool in_order = true;
    /// Any small buffer of the context, if markers of the device's out-of-order queues can't be used; else null.
    cl_mem placeholder = nullptr;
    /// The device is the host's processor: mapping moves nothing.
    bool processor = false;
    /// See HostAddresses::last().
    bool addresses_last = false;
};

/// A range of a buffer that is to lie in host memory while a command runs.
struct Mapping {
    cl_mem buffer;
    std::size_t offset;      ///< bytes
    std::size_t size;        ///< bytes, at least 1
    cl_map_flags flags;      ///< CL_MAP_READ or CL_MAP_WRITE
    void *memory = nullptr;  ///< where; null if the platform refused
    /// If not null, memory of the library's that the range is copied to (CL_MAP_READ) or from (CL_MAP_WRITE) instead. What
    /// is to be written lies there as a whole: copying back leaves nothing out.
    std::shared_ptr<std::byte> staging = nullptr;
    /// `memory` is the buffer's lasting address: no command maps or unmaps it.
    bool lasting = false;
};

/// What tells when a command may start.
struct Start {
    std::vector<Event> events;  ///< to be held until they are complete
    cl_event gate = nullptr;    ///< that of them which is complete when the command may start
    cl_event last = nullptr;    ///< that of them which is complete when all are
    WaitList wait_list;
    /// An event of the wait list failed while the command was enqueued: the gate may never end.
    bool failed = false;
};

/// As clSetUserEventStatus(), one at a time: PoCL fails what waits for it on the calling thread, and aborts if another thread
/// ends or enqueues the same command at that moment. Any thread.
void set_user_event(cl_event event, cl_int status);

/// NVIDIA's driver (580) takes a failed command out of an in-order queue some time after the failure can be seen. What is enqueued in
/// between fails, too: reads in 20 to 70 of 100 rounds, none 0.1 ms later.
constexpr std::chrono::microseconds settling_time{500};

using FailureLock = std::unique_lock<std::recursive_mutex>;
/// While it is held no other thread's set_user_event() ends an event: for enqueueing what may fail.
[[nodiscard]] FailureLock hold_failures();

/// Fills the mappings' memory from lasting addresses. Whether all are known.
bool find_lasting(const QueueInfo &info, std::span<Mapping> mappings);

/// Enqueues and flushes the mappings, or, if there are none, a command that does nothing.
Start enqueue_start(const QueueInfo &info, std::span<const cl_event> wait_list, std::span<Mapping> mappings);

/// Enqueues and flushes the unmapping of all mappings that have memory, or the copies back, behind `after` if it is not
/// null. None, one or two events; the last is complete when all are unmapped.
std::vector<Event> enqueue_unmap(const QueueInfo &info, cl_event after, std::span<const Mapping> mappings);

/// Stands for one command in the user's queue: an event that tells when the command may start, and one, the user's,
/// that ends when complete() is called.
///
/// On an in-order queue the former is a marker with the wait list, the latter a barrier that waits for an internal user
/// event, so that the queue stays in order. On an out-of-order queue both are markers, so that nothing else is held up; on
/// PoCL migrations of a placeholder, because its markers wait for all commands before them, whatever their wait list
/// says.
///
/// Mappings are made in the start's place and undone in the end's, in the user's queue: the engine needs no command of
/// the device for them, which on a device that computes and copies with the same cores would wait for kernels, and on
/// others takes two more turns of the driver.
///
/// Except on PoCL, a copy back never waits for an event that fails: NVIDIA's driver (580) then never returns from the release
/// of the context. The command's status has a user event of its own, behind the copies; if the command fails they write
/// what is there, and the command ends when they have.
///
/// All events are retained until the status has passed through: PoCL 3.1 aborts if a failing command's event has no
/// reference left but its own.
class Bridge {
public:
    /// Enqueues and flushes; fills the mappings' memory. Throws an Error if the platform refuses.
    Bridge(const QueueInfo &info, std::span<const cl_event> wait_list, std::span<Mapping> mappings);
    /// Of a command in no queue: an event of `context` alone. It may start at `start`, at once if that has no gate.
    explicit Bridge(cl_context context, Start start = {});
    /// Of a command without an event of its own, which may start when `start` is complete.
    explicit Bridge(cl_event start);
    Bridge(const Bridge &) = delete;
    Bridge &operator=(const Bridge &) = delete;
    ~Bridge();

    [[nodiscard]] const Start &start() const { return start_; }
    /// The execution status of the gate: when it is CL_COMPLETE the command may start.
    [[nodiscard]] cl_int start_status() const;
    /// Whether the command may end: a mapping behind the gate must be made before it is unmapped, which nothing else sees to
    /// on out-of-order queues, or where the unmapping fails.
    [[nodiscard]] bool may_end() const;
    [[nodiscard]] bool has_user_visible_event() const { return !end_.empty(); }
    [[nodiscard]] cl_event user_visible_event() const { return end_.back().get(); }

    /// Ends the command, one that fails perhaps only with ended(). Later calls do nothing.
    void complete(cl_int code);
    /// Whether the end can be seen. To be asked until it can, after complete().
    [[nodiscard]] bool ended();
    /// Whether the status has passed through, so that the events may be let go.
    [[nodiscard]] bool settled() const;
    /// Whether complete() makes the queue read memory of the library's, which is in use until the bridge has settled.
    [[nodiscard]] bool copies_back() const { return copies_back_; }

private:
    /// A range that complete() makes the queue copy back from `memory`.
    struct CopyBack {
        Mem buffer;
        std::size_t offset;  ///< bytes
        std::size_t size;    ///< bytes
        void *memory;
    };

    bool read_what_is_written_back() const;
    void copy_back();

    Device device_;  ///< PoCL 3.1 frees a sub-device although it has queues
    Context context_;
    Queue queue_;
    Event before_;  ///< null, or complete when the commands before have ended
    Start start_;
    Event done_;
    Event result_;  ///< null, or what end_.back() waits for besides the copies back, which wait for done_
    std::vector<Event> end_;
    std::vector<std::shared_ptr<std::byte>> staging_;
    bool copies_back_ = false;
    std::vector<CopyBack> written_back_;  ///< if there is result_
    bool completed_ = false;
    cl_int failure_ = CL_SUCCESS;  ///< what result_ is to be set to when the copies back have ended
    bool copying_ = false;         ///< what failed copies back
};

}  // namespace cldist
