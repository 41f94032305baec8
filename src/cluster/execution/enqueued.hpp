#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "cluster/execution/transport.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/objects/queue.hpp"
#include "cluster/schedule/schedule.hpp"
#include "pipeline/rect.hpp"

namespace cldist::cluster {

/// A region of the program's memory.
struct HostRegion {
    std::byte *begin;
    RectRegion shape;
};
/// Contiguous bytes.
inline HostRegion plain_region(const void *begin, std::size_t size) {
    return {static_cast<std::byte *>(const_cast<void *>(begin)), {size, 1, 1, size, size}};
}

/// A command as the program enqueues it.
struct Enqueued {
    QueueObject &queue;
    cl_command_type type;
    std::span<const Access> accesses;
    std::span<EventObject *const> wait_list;
    Result result{};        ///< has no bytes if the command has no result
    bool blocking = false;  ///< the caller will call wait_for_result()
    bool reads_host_memory = false;
    /// The program's memory that the command reads; set if `reads_host_memory`. A process without
    /// the program ignores `begin`.
    std::optional<HostRegion> source{};
    /// The same bytes without gaps in this process, present when the command begins; null if they
    /// were not sent here.
    std::shared_ptr<std::byte[]> brought{};
    /// A promised ending that the native command must wait for; null if there is none.
    std::shared_ptr<Ending> behind{};
    /// Page-locked memory for all bytes of the copy; null if the copy does not use it.
    std::shared_ptr<std::byte[]> staging{};
    /// Whether the bytes are copied in blocks through page-locked memory.
    bool in_blocks = false;
    /// Keeps the program's memory alive until the command has ended; null if the program does this.
    std::shared_ptr<const void> kept{};
    /// Whether this is a sub-range of an aggregate queue's command, on a lane. Then the schedule
    /// already knows which bytes it needs (begin_parts()).
    bool is_part = false;
    /// The wait list of the whole command; `wait_list` contains its events for this lane.
    std::span<EventObject *const> whole_wait_list{};
    /// Ends when earlier results, which the command must wait for, are in the program's memory; may
    /// be null. Set before the native command is enqueued.
    std::shared_ptr<Ending> incoming{};
    /// See NativeCommand::own_times. Set while the native command is enqueued.
    std::shared_ptr<const Times> own_times{};
    /// Whether call_driver() releases the lock, so that other threads' calls may run meanwhile. Set
    /// before the native command is enqueued.
    bool leaves_lock = false;

    /// Calls the driver, without the lock if `leaves_lock`: drivers take 10 us for some commands.
    template <typename Call>
    cl_int call_driver(Call &&call) const {
        const UnlockedWithin unlocked(leaves_lock);
        return call();
    }

    /// The wait list that the program passed, also for a sub-range.
    [[nodiscard]] std::span<EventObject *const> program_wait_list() const {
        return whole_wait_list.empty() ? wait_list : whole_wait_list;
    }
    [[nodiscard]] Ordering ordering() const {
        return queue.ordering_of(type, !program_wait_list().empty());
    }
};

/// A range of a native buffer, in bytes.
struct NativeRange {
    cl_mem buffer;
    std::size_t offset;
    std::size_t size;
};

/// The last three arguments of a native command.
struct Waits {
    cl_uint count;
    const cl_event *events;
    cl_event *event;
};

/// See cldist::enqueue_marker_behind().
cl_int enqueue_marker_behind(const QueueObject &queue, const Waits &waits);

}  // namespace cldist::cluster
