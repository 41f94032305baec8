// Commands on buffers.
#include <algorithm>
#include <array>
#include <optional>

#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/record.hpp"
#include "cluster/execution/host_region.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

/// A box of bytes within memory, as in the Rect commands.
struct Box {
    std::array<std::size_t, 3> origin;
    std::array<std::size_t, 3> region;
    std::size_t row_pitch;
    std::size_t slice_pitch;

    /// Throws an Error if pitches or region are wrong.
    static Box checked(const size_t *origin, const size_t *region, std::size_t row_pitch, std::size_t slice_pitch) {
        require(origin != nullptr && region != nullptr, CL_INVALID_VALUE,
                "origin or region is NULL; expected arrays of three elements");
        Box box{{origin[0], origin[1], origin[2]}, {region[0], region[1], region[2]}, row_pitch, slice_pitch};
        require(region[0] != 0 && region[1] != 0 && region[2] != 0, CL_INVALID_VALUE,
                "region is {{{}, {}, {}}}; every element must be at least 1", region[0], region[1], region[2]);
        if (box.row_pitch == 0) box.row_pitch = region[0];
        if (box.slice_pitch == 0) box.slice_pitch = region[1] * box.row_pitch;
        require(box.row_pitch >= region[0], CL_INVALID_VALUE,
                "the row pitch is {}; expected 0 or at least region[0] ({})", box.row_pitch, region[0]);
        require(box.slice_pitch >= region[1] * box.row_pitch && box.slice_pitch % box.row_pitch == 0, CL_INVALID_VALUE,
                "the slice pitch is {}; expected 0 or a multiple of the row pitch ({}) of at least {}", box.slice_pitch,
                box.row_pitch, region[1] * box.row_pitch);
        return box;
    }
    [[nodiscard]] std::size_t begin() const { return origin[2] * slice_pitch + origin[1] * row_pitch + origin[0]; }
    [[nodiscard]] std::size_t end() const {
        return begin() + (region[2] - 1) * slice_pitch + (region[1] - 1) * row_pitch + region[0];
    }
    /// Whether its bytes are all of those between its begin and its end.
    [[nodiscard]] bool is_whole() const {
        return (row_pitch == region[0] || (region[1] == 1 && region[2] == 1)) &&
               (slice_pitch == region[1] * row_pitch || region[2] == 1);
    }
};

void check_box(const MemObject &buffer, const Box &box) {
    require(!buffer.is_image(), CL_INVALID_MEM_OBJECT, "the memory object is an image; expected a buffer");
    if (box.end() > buffer.size)
        fail(CL_INVALID_VALUE, "the region ends at byte {}, but the buffer has {} bytes", box.end(), buffer.size);
}

// ---- On an aggregate device ----------------------------------------------------------------------------------------

// One device alone executes a command with more pieces.
constexpr std::size_t most_pieces = 64;

/// Each process reads what all devices have from its own; what others have they read, and tell all.
void read_parts(QueueObject &queue, MemObject &buffer, Piece range, std::byte *to, bool blocking,
                std::span<EventObject *const> waits, cl_event *event) {
    MemObject &root = buffer.root();
    const std::size_t begin = buffer.origin + range.begin;
    struct Part {
        std::size_t begin;
        std::size_t end;
        QueueObject *lane;  // null: everywhere
    };
    std::vector<Part> parts;
    QueueObject *before = nullptr;
    for (const HeldPiece &piece : pieces_of(queue, root, begin, buffer.origin + range.end)) {
        // Rather the lane that has the piece before.
        QueueObject *lane = nullptr;
        if (!piece.everywhere)
            lane = before != nullptr && piece.holders.count() > 0 &&
                           piece.holders.contains(executor().schedule().topology().place_of(before->device->memory))
                       ? before
                       : &lane_of(queue, piece.holders);
        if (!parts.empty() && parts.back().lane == lane)
            parts.back().end = piece.end;
        else
            parts.push_back({piece.begin, piece.end, lane});
        before = lane;
    }
    if (parts.size() > most_pieces)
        parts = {{begin, buffer.origin + range.end, &lane_for(queue, buffer, range.begin, range.end)}};
    Joint joint(queue, CL_COMMAND_READ_BUFFER, waits, event != nullptr || blocking);
    const CallHash call = World::get().calls().last();
    bool told_all = true;
    for (const Part &part : parts) {
        const std::array accesses{Access{root.id, part.begin, part.end, AccessMode::read}};
        const std::size_t size = part.end - part.begin;
        std::byte *const memory = to + (part.begin - begin);
        QueueObject &lane = part.lane != nullptr ? *part.lane : *queue.own_lanes.front();
        Enqueued command = with_host_memory(
            memory, {lane, CL_COMMAND_READ_BUFFER, accesses, {}, {memory, size, {}}, blocking && parts.size() == 1});
        command.is_part = part.lane == nullptr;
        told_all = told_all && !command.is_part;
        executor().memory().stage(command, memory, size);
        joint.run(std::move(command), [&](Enqueued &enqueued, const Waits &w) {
            return executor().memory().read(enqueued, {root.native(*lane.space), part.begin, size}, memory, w);
        });
    }
    conclude(joint.end(told_all), event, blocking, call);
}

/// Whether all devices of the queue write, each in its own memory. Where that may fail, one does,
/// which has what was there before.
bool writes_in_all(const QueueObject &queue, std::span<EventObject *const> waits) {
    if (!queue.is_aggregate()) return false;
    return !user_events_before(queue, queue.place_of(CL_COMMAND_WRITE_BUFFER, !waits.empty()), waits).any();
}

/// `begin(lane, command)` gives what enqueues it natively.
template <typename Begin>
void write_everywhere(QueueObject &queue, Joint &joint, const Access &access, bool from_host, Begin &&begin,
                      bool blocking = false) {
    if (!executor().decides_nothing(*queue.context)) executor().schedule().write_everywhere(access);
    for_each_memory_here(queue, [&](QueueObject &lane) {
        const std::array accesses{access};
        const cl_command_type type = from_host ? CL_COMMAND_WRITE_BUFFER : CL_COMMAND_FILL_BUFFER;
        Enqueued command{lane, type, accesses, {}, {}, blocking};
        command.reads_host_memory = from_host;
        command.is_part = true;
        const auto native = begin(lane, command);
        joint.run(std::move(command), native);
    });
}

/// Each device copies what it has. Returns false, and does nothing, if that are too many pieces.
bool copy_in_place(QueueObject &queue, MemObject &source, const Access &from, MemObject &target, const Access &to,
                   std::span<EventObject *const> waits, cl_event *event) {
    const auto pieces = pieces_of(queue, source.root(), from.begin, from.end);
    if (pieces.size() > most_pieces || executor().decides_nothing(*queue.context)) return false;
    Schedule &schedule = executor().schedule();
    schedule.copy_in_place(from, to);
    Joint joint(queue, CL_COMMAND_COPY_BUFFER, waits, event != nullptr);
    for_each_memory_here(queue, [&](QueueObject &lane) {
        const std::uint32_t place = schedule.topology().place_of(lane.device->memory);
        for (const HeldPiece &piece : pieces) {
            if (piece.holders.count() == 0 || !piece.holders.contains(place)) continue;
            const std::size_t size = piece.end - piece.begin;
            const std::size_t at = piece.begin - from.begin + to.begin;
            const std::array accesses{Access{from.buffer, piece.begin, piece.end, AccessMode::read},
                                      Access{to.buffer, at, at + size, AccessMode::write}};
            Enqueued command{lane, CL_COMMAND_COPY_BUFFER, accesses, {}};
            command.is_part = true;
            joint.run(std::move(command), [&](Enqueued &, const Waits &w) {
                return clEnqueueCopyBuffer(lane.native.get(), source.root().native(*lane.space),
                                           target.root().native(*lane.space), piece.begin, at, size, w.count, w.events,
                                           w.event);
            });
        }
    });
    give(joint.end(), event);
    return true;
}

AccessMode written(const Box &box) { return box.is_whole() ? AccessMode::write : AccessMode::read_write; }

}  // namespace

void check_range(const MemObject &buffer, std::size_t offset, std::size_t size) {
    require(!buffer.is_image(), CL_INVALID_MEM_OBJECT, "the memory object is an image; expected a buffer");
    if (offset > buffer.size || size > buffer.size - offset)
        fail(CL_INVALID_VALUE, "offset {1} and size {0} exceed the buffer of {2} bytes", size, offset, buffer.size);
}

void check_map_flags(const MemObject &object, cl_map_flags flags) {
    constexpr cl_map_flags keeping = CL_MAP_READ | CL_MAP_WRITE;
    const bool invalidates = (flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0;
    require((flags & ~(keeping | CL_MAP_WRITE_INVALIDATE_REGION)) == 0 && (!invalidates || (flags & keeping) == 0),
            CL_INVALID_VALUE,
            "map_flags is {:#x}; expected CL_MAP_READ, CL_MAP_WRITE or both, or CL_MAP_WRITE_INVALIDATE_REGION alone",
            flags);
    if ((flags & CL_MAP_READ) != 0) check_host_access(object, CL_MEM_HOST_WRITE_ONLY);
    if ((flags & CL_MAP_WRITE) != 0 || invalidates) check_host_access(object, CL_MEM_HOST_READ_ONLY);
}

void check_alignment(const QueueObject &queue, const MemObject &memory) {
    if (!memory.parent || memory.is_image()) return;
    require(memory.origin % queue.device->sub_buffer_alignment == 0, CL_MISALIGNED_SUB_BUFFER_OFFSET,
            "the sub-buffer begins at byte {} of its buffer; expected a multiple of {}, the alignment of the queue's "
            "device",
            memory.origin, queue.device->sub_buffer_alignment);
}

// ---- Reading and writing -------------------------------------------------------------------------------------------

void enqueue_read_buffer(cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking, size_t offset,
                         size_t size, void *ptr, cl_uint num_events, const cl_event *wait_list, cl_event *event) {
    QueueObject &queue = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(queue, buffer);
    check_range(buffer, offset, size);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, buffer);
    check_host_access(buffer, CL_MEM_HOST_WRITE_ONLY);
    if (queue.is_aggregate())
        return read_parts(queue, buffer, {offset, offset + size}, at(ptr, 0), blocking != CL_FALSE, waits, event);
    const std::array accesses{buffer.access(offset, offset + size, AccessMode::read)};
    Enqueued command =
        with_host_memory(ptr, {queue, CL_COMMAND_READ_BUFFER, accesses, waits,
                               executor().memory().result_in(plain_region(ptr, size), queue), blocking != CL_FALSE});
    executor().memory().stage(command, ptr, size);
    enqueue(std::move(command), event, [&](Enqueued &enqueued, const Waits &w) {
        const NativeRange range{buffer.root().native(*queue.space), buffer.origin + offset, size};
        return executor().memory().read(enqueued, range, enqueued.result.data, w);
    });
}

void enqueue_write_buffer(Handling handling, cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking,
                          size_t offset, size_t size, const void *ptr, cl_uint num_events, const cl_event *wait_list,
                          cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(whole, buffer);
    check_range(buffer, offset, size);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, buffer);
    check_host_access(buffer, CL_MEM_HOST_READ_ONLY);
    if (handling == Handling::leave_out) return leave_out(whole, CL_COMMAND_WRITE_BUFFER, event);
    const std::array accesses{buffer.access(offset, offset + size, AccessMode::write)};
    if (writes_in_all(whole, waits)) {
        Joint joint(whole, CL_COMMAND_WRITE_BUFFER, waits, event != nullptr || blocking != CL_FALSE);
        const CallHash call = World::get().calls().last();
        write_everywhere(
            whole, joint, accesses.front(), true,
            [&](QueueObject &lane, Enqueued &command) {
                command.kept = mapped_memory().keeper_of(ptr);
                executor().memory().stage(command, ptr, size);
                return [&](Enqueued &enqueued, const Waits &w) {
                    const NativeRange range{buffer.root().native(*lane.space), buffer.origin + offset, size};
                    return executor().memory().write(enqueued, range, static_cast<const std::byte *>(ptr), w);
                };
            },
            blocking != CL_FALSE);
        return conclude(joint.end(), event, blocking != CL_FALSE, call);
    }
    QueueObject &queue = lane_for(whole, buffer, offset, offset + size);
    // Only the device's process needs the program's memory.
    Enqueued command =
        with_host_memory(ptr, {queue, CL_COMMAND_WRITE_BUFFER, accesses, waits, {}, blocking != CL_FALSE, true});
    command.source = plain_region(ptr, size);
    executor().memory().stage(command, ptr, size);
    enqueue(std::move(command), event, [&](Enqueued &enqueued, const Waits &w) {
        const NativeRange range{buffer.root().native(*queue.space), buffer.origin + offset, size};
        const void *const from = enqueued.brought != nullptr ? enqueued.brought.get() : ptr;
        return executor().memory().write(enqueued, range, static_cast<const std::byte *>(from), w);
    });
}

void enqueue_read_buffer_rect(cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking,
                              const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                              size_t buffer_row_pitch, size_t buffer_slice_pitch, size_t host_row_pitch,
                              size_t host_slice_pitch, void *ptr, cl_uint num_events, const cl_event *wait_list,
                              cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    QueueObject &queue = lane_for(whole, buffer);
    check_context(queue, buffer);
    const Box source = Box::checked(buffer_origin, region, buffer_row_pitch, buffer_slice_pitch);
    const Box target = Box::checked(host_origin, region, host_row_pitch, host_slice_pitch);
    check_box(buffer, source);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, buffer);
    check_host_access(buffer, CL_MEM_HOST_WRITE_ONLY);
    const std::array accesses{buffer.access(source.begin(), source.end(), AccessMode::read)};
    const HostRegion host{at(ptr, target.begin()), target.region, target.row_pitch, target.slice_pitch};
    enqueue(with_host_memory(ptr, {queue, CL_COMMAND_READ_BUFFER_RECT, accesses, waits,
                                   executor().memory().result_in(host, queue), blocking != CL_FALSE}),
            event, [&](Enqueued &command, const Waits &w) {
                const bool packed = command.result.packed;
                const std::array<std::size_t, 3> start{};
                return clEnqueueReadBufferRect(queue.native.get(), buffer.native(*queue.space), CL_FALSE, buffer_origin,
                                               packed ? start.data() : host_origin, region, buffer_row_pitch,
                                               buffer_slice_pitch, packed ? 0 : host_row_pitch,
                                               packed ? 0 : host_slice_pitch, packed ? command.result.data : ptr,
                                               w.count, w.events, w.event);
            });
}

void enqueue_write_buffer_rect(Handling handling, cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking,
                               const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                               size_t buffer_row_pitch, size_t buffer_slice_pitch, size_t host_row_pitch,
                               size_t host_slice_pitch, const void *ptr, cl_uint num_events, const cl_event *wait_list,
                               cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    QueueObject &queue = lane_for(whole, buffer);
    check_context(queue, buffer);
    const Box target = Box::checked(buffer_origin, region, buffer_row_pitch, buffer_slice_pitch);
    const Box source = Box::checked(host_origin, region, host_row_pitch, host_slice_pitch);
    check_box(buffer, target);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, buffer);
    check_host_access(buffer, CL_MEM_HOST_READ_ONLY);
    if (handling == Handling::leave_out) return leave_out(queue, CL_COMMAND_WRITE_BUFFER_RECT, event);
    const std::array accesses{buffer.access(target.begin(), target.end(), written(target))};
    Enqueued write =
        with_host_memory(ptr, {queue, CL_COMMAND_WRITE_BUFFER_RECT, accesses, waits, {}, blocking != CL_FALSE, true});
    write.source = HostRegion{const_cast<std::byte *>(at(ptr, source.begin())), source.region, source.row_pitch,
                              source.slice_pitch};
    enqueue(std::move(write), event, [&](Enqueued &command, const Waits &w) {
        const bool brought = command.brought != nullptr;
        const std::array<std::size_t, 3> start{};
        return clEnqueueWriteBufferRect(queue.native.get(), buffer.native(*queue.space), CL_FALSE, buffer_origin,
                                        brought ? start.data() : host_origin, region, buffer_row_pitch,
                                        buffer_slice_pitch, brought ? 0 : host_row_pitch,
                                        brought ? 0 : host_slice_pitch, brought ? command.brought.get() : ptr, w.count,
                                        w.events, w.event);
    });
}

// ---- Filling and copying -------------------------------------------------------------------------------------------

void enqueue_fill_buffer(Handling handling, cl_command_queue queue_handle, cl_mem buffer_handle, const void *pattern,
                         size_t pattern_size, size_t offset, size_t size, cl_uint num_events, const cl_event *wait_list,
                         cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(whole, buffer);
    check_range(buffer, offset, size);
    if (pattern == nullptr || !is_pattern_size(pattern_size))
        fail(CL_INVALID_VALUE, "pattern is NULL, or pattern_size ({}) is not a power of two from 1 to 128",
             pattern_size);
    require(offset % pattern_size == 0 && size % pattern_size == 0, CL_INVALID_VALUE,
            "offset {} or size {} is not a multiple of pattern_size ({})", offset, size, pattern_size);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, buffer);
    if (handling == Handling::leave_out) return leave_out(whole, CL_COMMAND_FILL_BUFFER, event);
    const std::array accesses{buffer.access(offset, offset + size, AccessMode::write)};
    if (writes_in_all(whole, waits)) {
        Joint joint(whole, CL_COMMAND_FILL_BUFFER, waits, event != nullptr);
        write_everywhere(whole, joint, accesses.front(), false, [&](QueueObject &lane, Enqueued &) {
            return [&](Enqueued &, const Waits &w) {
                return clEnqueueFillBuffer(lane.native.get(), buffer.root().native(*lane.space), pattern, pattern_size,
                                           buffer.origin + offset, size, w.count, w.events, w.event);
            };
        });
        return give(joint.end(), event);
    }
    QueueObject &queue = lane_for(whole, buffer, offset, offset + size);
    enqueue({queue, CL_COMMAND_FILL_BUFFER, accesses, waits}, event, [&](Enqueued &, const Waits &w) {
        return clEnqueueFillBuffer(queue.native.get(), buffer.root().native(*queue.space), pattern, pattern_size,
                                   buffer.origin + offset, size, w.count, w.events, w.event);
    });
}

void enqueue_copy_buffer(Handling handling, cl_command_queue queue_handle, cl_mem source_handle, cl_mem target_handle,
                         size_t source_offset, size_t target_offset, size_t size, cl_uint num_events,
                         const cl_event *wait_list, cl_event *event) {
    QueueObject &queue = queue_of(queue_handle);
    MemObject &source = memory_of(source_handle);
    MemObject &target = memory_of(target_handle);
    check_context(queue, source);
    check_context(queue, target);
    check_range(source, source_offset, size);
    check_range(target, target_offset, size);
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, source);
    check_alignment(queue, target);
    const Access read = source.access(source_offset, source_offset + size, AccessMode::read);
    const Access write = target.access(target_offset, target_offset + size, AccessMode::write);
    require(read.buffer != write.buffer || read.end <= write.begin || write.end <= read.begin, CL_MEM_COPY_OVERLAP,
            "source and destination overlap: {} bytes from byte {} and from byte {} of one buffer", size, source_offset,
            target_offset);
    if (handling == Handling::leave_out) return leave_out(queue, CL_COMMAND_COPY_BUFFER, event);
    if (writes_in_all(queue, waits) && copy_in_place(queue, source, read, target, write, waits, event)) return;
    QueueObject &lane = lane_for(queue, source, source_offset, source_offset + size);
    const std::array accesses{read, write};
    enqueue({lane, CL_COMMAND_COPY_BUFFER, accesses, waits}, event, [&](Enqueued &, const Waits &w) {
        // PoCL 3.1 refuses that, which OpenCL has allowed since 2.1.
        if (size == 0) return enqueue_marker_behind(lane, w);
        return clEnqueueCopyBuffer(lane.native.get(), source.root().native(*lane.space),
                                   target.root().native(*lane.space), source.origin + source_offset,
                                   target.origin + target_offset, size, w.count, w.events, w.event);
    });
}

void enqueue_copy_buffer_rect(Handling handling, cl_command_queue queue_handle, cl_mem source_handle,
                              cl_mem target_handle, const size_t *source_origin, const size_t *target_origin,
                              const size_t *region, size_t source_row_pitch, size_t source_slice_pitch,
                              size_t target_row_pitch, size_t target_slice_pitch, cl_uint num_events,
                              const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &source = memory_of(source_handle);
    MemObject &target = memory_of(target_handle);
    QueueObject &queue = lane_for(whole, target);
    check_context(queue, source);
    check_context(queue, target);
    const Box from = Box::checked(source_origin, region, source_row_pitch, source_slice_pitch);
    const Box to = Box::checked(target_origin, region, target_row_pitch, target_slice_pitch);
    check_box(source, from);
    check_box(target, to);
    require(&source != &target || (from.row_pitch == to.row_pitch && from.slice_pitch == to.slice_pitch),
            CL_INVALID_VALUE,
            "the pitches of source ({}, {}) and destination ({}, {}) differ; within one buffer they must be equal",
            from.row_pitch, from.slice_pitch, to.row_pitch, to.slice_pitch);
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, source);
    check_alignment(queue, target);
    require(&source != &target || !boxes_overlap(from.origin, from.region, to.origin, to.region), CL_MEM_COPY_OVERLAP,
            "the source region and the destination region overlap");
    if (handling == Handling::leave_out) return leave_out(queue, CL_COMMAND_COPY_BUFFER_RECT, event);
    const std::array accesses{source.access(from.begin(), from.end(), AccessMode::read),
                              target.access(to.begin(), to.end(), written(to))};
    enqueue({queue, CL_COMMAND_COPY_BUFFER_RECT, accesses, waits}, event, [&](Enqueued &, const Waits &w) {
        return clEnqueueCopyBufferRect(queue.native.get(), source.native(*queue.space), target.native(*queue.space),
                                       source_origin, target_origin, region, source_row_pitch, source_slice_pitch,
                                       target_row_pitch, target_slice_pitch, w.count, w.events, w.event);
    });
}

// ---- Mapping -------------------------------------------------------------------------------------------------------

void *keep_mapping(MemObject &object, Mapped mapped, const Ref<EventObject> &map, const Ref<EventObject> &part,
                   cl_event *event, bool blocking, const CallHash &call) {
    const bool by_any_queue = object.context->spaces.size() > 1;
    mapped.number = World::get().next_number();
    // Without the program, the number replaces the address.
    if (World::get().follows()) mapped.memory = reinterpret_cast<void *>(mapped.number);
    // The native platform did not map because the command fails.
    if (mapped.memory == nullptr) {
        mapped.is_native = false;
        mapped.own = own_memory(mapped.end - mapped.begin);
        mapped.memory = mapped.own.get();
    }
    // Another device's queue may undo it, and must not before it is made.
    // So may that of another process, and the memory must last until the bytes have come.
    const bool ends_natively = part && part->native && World::get().is_host();
    if (part)
        mapped.landed =
            (mapped.is_native && by_any_queue) || ends_natively ? executor().ends().ending_of(*part) : part->ending;
    if (ends_natively && mapped.own != nullptr) mapped.landed->then([own = mapped.own](cl_int) {});
    give(map, event);
    const Ref<MemObject> held(&object);
    if (blocking) wait_for_result(*map, call);
    void *const memory = mapped.memory;
    if (mapped.is_native) {
        mapped.is_page_locked = true;
        executor().memory().copies().add_page_locked(memory, mapped.end - mapped.begin);
    }
    if (mapped.is_native) {
        Space &space = *object.context->space(mapped.device_memory);
        mapped.kept = std::make_shared<const Mem>(Mem::share(object.root().native(space)));
    } else if (mapped.own != nullptr) {
        mapped.kept = mapped.own;
    } else {
        mapped.kept = object.destruction;
    }
    if (!World::get().follows()) mapped_memory().add(mapped);
    object.mappings.push_back(std::move(mapped));
    return memory;
}

void *enqueue_map_buffer(cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking, cl_map_flags flags,
                         size_t offset, size_t size, cl_uint num_events, const cl_event *wait_list, cl_event *event,
                         cl_int *) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    QueueObject &queue = lane_for(whole, buffer);
    check_context(queue, buffer);
    check_range(buffer, offset, size);
    require(size != 0, CL_INVALID_VALUE, "size is 0");
    check_map_flags(buffer, flags);
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, buffer);

    Mapped mapped{};
    mapped.device_memory = queue.device->memory;
    mapped.begin = offset;
    mapped.end = offset + size;
    mapped.size = size;
    mapped.flags = flags;
    // The program gets the native runtime's memory if possible. It does not if unmapping moves
    // bytes and another device may unmap. NVIDIA's driver (580) also ends a map without contents
    // before the earlier reads have ended.
    const bool is_here = queue.space != nullptr && (!World::get().is_central() || queue.context->has_one_memory);
    const bool may_be_native = buffer.host_memory(0) == nullptr || queue.context->spaces.size() == 1;
    mapped.is_native = is_here && !World::get().follows() && may_be_native &&
                       (queue.context->has_one_memory || queue.space->resources()->is_cpu());
    if (!mapped.is_native && !World::get().follows()) {
        mapped.memory = buffer.host_memory(offset);
        if (mapped.memory == nullptr) executor().memory().give_memory(queue, buffer, mapped);
    }
    const bool needs_contents = (flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
    // Bytes of a buffer that is attached elsewhere return there only after unmapping.
    const bool reads = needs_contents || buffer.homes().by_program();
    const std::array accesses{buffer.access(offset, offset + size, reads ? AccessMode::read : AccessMode::write)};
    Result result;
    if (needs_contents)
        result = into_mapping(executor().memory().result_in(plain_region(mapped.memory, size), queue), buffer, mapped);
    const CallHash call = World::get().calls().last();
    Ref<EventObject> part;
    const auto map = run_whole(
        {queue, CL_COMMAND_MAP_BUFFER, accesses, waits, std::move(result), blocking != CL_FALSE},
        event != nullptr || blocking != CL_FALSE || World::get().is_host() ||
            (mapped.is_native && queue.context->spaces.size() > 1),
        [&](Enqueued &command, const Waits &w) {
            const cl_mem native = buffer.root().native(*queue.space);
            const std::size_t at_root = buffer.origin + offset;
            cl_int code = CL_SUCCESS;
            if (mapped.is_native) {
                mapped.memory = clEnqueueMapBuffer(queue.native.get(), native, CL_FALSE, flags, at_root, size, w.count,
                                                   w.events, w.event, &code);
                command.result.data = at(mapped.memory, 0);
            } else if (needs_contents) {
                code = clEnqueueReadBuffer(queue.native.get(), native, CL_FALSE, at_root, size, command.result.data,
                                           w.count, w.events, w.event);
            } else {
                code = enqueue_marker_behind(queue, w);
            }
            return code;
        },
        &part);
    return keep_mapping(buffer, std::move(mapped), map, part, event, blocking != CL_FALSE, call);
}

// Where all processes run the program, one of them says so: the device's own may have a native mapping.
static void warn_of_overrun(const MemObject &object, const Mapped &mapped) {
    const std::size_t beyond = bytes_beyond(mapped);
    const bool is_of_first = executor().topology().process_of(mapped.device_memory) == 0;
    if (beyond == 0 || World::get().self() > (is_of_first ? 1U : 0U)) return;
    log_warning(
        "{} {}, of {} bytes: the program wrote {}{} bytes beyond the end of its map of {} bytes. These bytes are lost; "
        "map all bytes that the program writes",
        object.is_image() ? "image" : "buffer", object.number(), object.size, beyond == mapped.guard ? "at least " : "",
        beyond, mapped.size);
}

void enqueue_unmap_mem_object(cl_command_queue queue_handle, cl_mem memory_handle, void *pointer, cl_uint num_events,
                              const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &object = memory_of(memory_handle);
    Mapped *const at = object.mapping(pointer);
    require(at != nullptr, CL_INVALID_VALUE, "mapped_ptr is not an address that a map of this memory object returned");
    const auto by_same_memory = [&](const auto &lane) { return lane->device->memory == at->device_memory; };
    QueueObject &queue =
        whole.is_aggregate() ? **std::find_if(whole.lanes.begin(), whole.lanes.end(), by_same_memory) : whole;
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_context(queue, object);
    const Mapped mapped = std::move(*at);
    object.mappings.erase(object.mappings.begin() + (at - object.mappings.data()));
    if (!World::get().follows()) mapped_memory().remove(mapped);
    warn_of_overrun(object, mapped);
    if (mapped.is_page_locked) executor().memory().copies().remove_page_locked(mapped.memory);

    std::vector<Access> accesses;
    if (mapped.is_written()) accesses.push_back(object.access(mapped.begin, mapped.end, mapped.mode_of_writing));
    // Another device of the context may write the bytes back. Then the mapping device only ends its mapping.
    const bool same_memory = mapped.device_memory == queue.device->memory;
    if (mapped.is_native && !same_memory) {
        Space &space = *queue.context->space(mapped.device_memory);
        const cl_command_queue native = space.transfer_queue().queue;
        const Event passed_on = event_of(mapped.landed, space);
        const cl_event wait = passed_on.get();
        check(clEnqueueUnmapMemObject(native, object.root().native(space), pointer, wait != nullptr ? 1 : 0,
                                      wait != nullptr ? &wait : nullptr, nullptr),
              "clEnqueueUnmapMemObject");
        clFlush(native);
    }
    // The mapped bytes may still be read for other processes.
    Enqueued command{queue, CL_COMMAND_UNMAP_MEM_OBJECT, accesses, waits};
    command.reads_host_memory = mapped.is_written();
    command.behind = mapped.landed;
    if (mapped.is_written()) command.source = written_region(object, mapped);
    if (World::get().is_host()) command.kept = mapped.kept;
    const std::size_t size = mapped.end - mapped.begin;
    // Some drivers' writes from pageable memory wait in the call.
    if (mapped.is_written() && !mapped.is_page_locked && !object.is_image())
        executor().memory().stage(command, mapped.memory, size);
    enqueue(std::move(command), event, [&](Enqueued &enqueued, const Waits &w) {
        const cl_mem native = (object.is_image() ? object : object.root()).native(*queue.space);
        if (mapped.is_native && same_memory)
            return clEnqueueUnmapMemObject(queue.native.get(), native, pointer, w.count, w.events, w.event);
        if (enqueued.brought != nullptr) return write_back(queue, object, native, mapped, enqueued.brought.get(), w);
        if (enqueued.staging != nullptr || enqueued.in_blocks) {
            const cl_int code = executor().memory().write(enqueued, {native, object.origin + mapped.begin, size},
                                                          static_cast<const std::byte *>(mapped.memory), w);
            if (code == CL_SUCCESS) keep_until(*w.event, mapped.kept);
            return code;
        }
        return unmap(queue, object, native, mapped, w, executor().memory().copies());
    });
}

void enqueue_migrate_mem_objects(cl_command_queue queue_handle, cl_uint count, const cl_mem *list,
                                 cl_mem_migration_flags flags, cl_uint num_events, const cl_event *wait_list,
                                 cl_event *event) {
    QueueObject &queue = queue_of(queue_handle);
    require(count > 0 && list != nullptr, CL_INVALID_VALUE,
            "num_mem_objects is {} or mem_objects is NULL; expected at least one memory object", count);
    std::vector<Access> accesses;
    for (cl_uint i = 0; i < count; ++i) {
        MemObject &object = memory_of(list[i]);
        check_context(queue, object);
        const bool undefined = (flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) != 0;
        // Migration to the host has no meaning here, because each process has a host. Attached
        // buffers stay where they are.
        if ((flags & CL_MIGRATE_MEM_OBJECT_HOST) == 0 && !object.homes().by_program())
            accesses.push_back(object.whole(undefined ? AccessMode::write : AccessMode::read));
    }
    require(
        (flags & ~cl_mem_migration_flags{CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED}) == 0,
        CL_INVALID_VALUE,
        "flags is {:#x}; expected a combination of CL_MIGRATE_MEM_OBJECT_HOST and "
        "CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED",
        flags);
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    if (queue.is_aggregate())  // what is where is the platform's affair
        return give(Joint(queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, waits, event != nullptr).end(), event);
    enqueue({queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, accesses, waits}, event, [&](Enqueued &, const Waits &w) {
        // If migrations wait for transfers, also for those of earlier commands in the queue,
        // NVIDIA's driver (580) crashes in one of its threads. PoCL's migrations (3.1) wait for all
        // commands that use their buffers.
        const bool moves_nothing = queue.space->devices.size() == 1;
        if (moves_nothing || w.count != 0) return enqueue_marker_behind(queue, w);
        std::vector<cl_mem> natives;
        for (cl_uint i = 0; i < count; ++i) natives.push_back(memory_of(list[i]).native(*queue.space));
        return clEnqueueMigrateMemObjects(queue.native.get(), count, natives.data(), flags, w.count, w.events, w.event);
    });
}

}  // namespace cldist::cluster
