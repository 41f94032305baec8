// Commands on buffers.
#include <algorithm>
#include <array>

#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/execution/host_region.hpp"

namespace cldist::cluster {
namespace {

PlacedRect rect_in(const MemObject &buffer, const RectArguments &arguments) {
    require(!buffer.is_image(), CL_INVALID_MEM_OBJECT,
            "the memory object is an image; expected a buffer");
    return place_rect(arguments, buffer.size);
}

std::size_t end_of(const PlacedRect &rect) { return rect.offset + rect.region.extent(); }

Access reads(MemObject &buffer, const PlacedRect &rect) {
    return buffer.access(rect.offset, end_of(rect), AccessMode::read);
}
Access writes(MemObject &buffer, const PlacedRect &rect) {
    return buffer.access(rect.offset, end_of(rect),
                         rect.region.contiguous() ? AccessMode::write : AccessMode::read_write);
}

// ---- On an aggregate device ----

// A command with more pieces is executed by one device.
constexpr std::size_t most_pieces = 64;

/// If every process has a device, each reads the pieces that all devices hold from its own device.
/// Other pieces are read by one lane, whose process sends them to all processes.
void read_parts(QueueObject &queue, MemObject &buffer, Piece range, std::byte *to, bool blocking,
                std::span<EventObject *const> waits, cl_event *event) {
    MemObject &root = buffer.root();
    const std::size_t begin = buffer.origin + range.begin;
    struct Part {
        std::size_t begin;
        std::size_t end;
        QueueObject *lane;  // null if each process reads the bytes from its own device
    };
    const bool each_has_device =
        processes_of(queue.context->devices).size() == executor().topology().processes();
    std::vector<Part> parts;
    QueueObject *before = nullptr;
    for (const HeldPiece &piece : pieces_of(queue, root, begin, buffer.origin + range.end)) {
        // Prefers the lane of the preceding piece.
        QueueObject *lane = nullptr;
        if (!piece.everywhere || !each_has_device)
            lane = before != nullptr && piece.holders.count() > 0 &&
                           piece.holders.contains(
                               executor().schedule().topology().place_of(before->device->memory))
                       ? before
                       : &lane_of(queue, piece.holders);
        if (!parts.empty() && parts.back().lane == lane)
            parts.back().end = piece.end;
        else
            parts.push_back({piece.begin, piece.end, lane});
        before = lane;
    }
    if (parts.size() > most_pieces)
        parts = {
            {begin, buffer.origin + range.end, &lane_for(queue, buffer, range.begin, range.end)}};
    Joint joint(queue, CL_COMMAND_READ_BUFFER, waits, event != nullptr || blocking);
    const CallHash call = World::get().calls().last();
    bool told_all = true;
    for (const Part &part : parts) {
        const std::array accesses{Access{root.id, part.begin, part.end, AccessMode::read}};
        const std::size_t size = part.end - part.begin;
        std::byte *const memory = to + (part.begin - begin);
        QueueObject &lane = part.lane != nullptr ? *part.lane : *queue.natives.front();
        Enqueued command = with_host_memory(memory, {lane,
                                                     CL_COMMAND_READ_BUFFER,
                                                     accesses,
                                                     {},
                                                     {memory, size, {}},
                                                     blocking && parts.size() == 1});
        command.is_part = part.lane == nullptr;
        told_all = told_all && !command.is_part;
        executor().memory().stage(command, memory, size);
        joint.run(std::move(command), [&](Enqueued &enqueued, const Waits &w) {
            return executor().memory().read(enqueued, {root.native(*lane.space), part.begin, size},
                                            memory, w);
        });
    }
    conclude(joint.end(told_all), event, blocking, call);
}

/// Whether all devices of an aggregate queue execute a write, each in its own memory. A write that
/// may fail is executed by one device, which first gets the old bytes.
bool writes_in_all(const QueueObject &queue, std::span<EventObject *const> waits) {
    if (!queue.is_aggregate()) return false;
    return !user_events_before(queue, queue.ordering_of(CL_COMMAND_WRITE_BUFFER, !waits.empty()),
                               waits)
                .any();
}

/// `begin(lane, command)` returns the function that enqueues the command natively.
template <typename Begin>
void write_everywhere(QueueObject &queue, Joint &joint, const Access &access, bool from_host,
                      Begin &&begin, bool blocking = false) {
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

/// Each device copies the bytes that it holds. Returns false, and does nothing, if these are too
/// many pieces or the schedule decides nothing.
bool copy_in_place(QueueObject &queue, MemObject &source, const Access &from, MemObject &target,
                   const Access &to, std::span<EventObject *const> waits, cl_event *event) {
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
                                           target.root().native(*lane.space), piece.begin, at, size,
                                           w.count, w.events, w.event);
            });
        }
    });
    give(joint.end(), event);
    return true;
}

}  // namespace

void check_range(const MemObject &buffer, std::size_t offset, std::size_t size) {
    require(!buffer.is_image(), CL_INVALID_MEM_OBJECT,
            "the memory object is an image; expected a buffer");
    if (offset > buffer.size || size > buffer.size - offset)
        fail(CL_INVALID_VALUE, "offset {1} and size {0} exceed the buffer of {2} bytes", size,
             offset, buffer.size);
}

void check_alignment(const QueueObject &queue, const MemObject &memory) {
    if (!memory.parent || memory.is_image()) return;
    require(memory.origin % queue.device->sub_buffer_alignment == 0,
            CL_MISALIGNED_SUB_BUFFER_OFFSET,
            "the sub-buffer begins at byte {} of its buffer; expected a multiple of {}, the "
            "alignment of the queue's device",
            memory.origin, queue.device->sub_buffer_alignment);
}

// ---- Reading and writing ----

void enqueue_read_buffer(cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking,
                         size_t offset, size_t size, void *ptr, cl_uint num_events,
                         const cl_event *wait_list, cl_event *event) {
    QueueObject &queue = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(queue, buffer);
    check_range(buffer, offset, size);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    check_alignment(queue, buffer);
    check_host_access(buffer, CL_MEM_HOST_WRITE_ONLY);
    if (queue.is_aggregate())
        return read_parts(queue, buffer, {offset, offset + size}, at(ptr, 0), blocking != CL_FALSE,
                          waits, event);
    const std::array accesses{buffer.access(offset, offset + size, AccessMode::read)};
    Enqueued command = with_host_memory(
        ptr, {queue, CL_COMMAND_READ_BUFFER, accesses, waits,
              executor().memory().result_in(plain_region(ptr, size), queue), blocking != CL_FALSE});
    executor().memory().stage(command, ptr, size);
    enqueue(std::move(command), event, [&](Enqueued &enqueued, const Waits &w) {
        const NativeRange range{buffer.root().native(*queue.space), buffer.origin + offset, size};
        return executor().memory().read(enqueued, range, enqueued.result.data, w);
    });
}

void enqueue_write_buffer(Handling handling, cl_command_queue queue_handle, cl_mem buffer_handle,
                          cl_bool blocking, size_t offset, size_t size, const void *ptr,
                          cl_uint num_events, const cl_event *wait_list, cl_event *event) {
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
        Joint joint(whole, CL_COMMAND_WRITE_BUFFER, waits,
                    event != nullptr || blocking != CL_FALSE);
        const CallHash call = World::get().calls().last();
        write_everywhere(
            whole, joint, accesses.front(), true,
            [&](QueueObject &lane, Enqueued &command) {
                command.kept = mapped_memory().keeper_of(ptr);
                command.source = plain_region(ptr, size);
                executor().memory().stage(command, ptr, size);
                return [&](Enqueued &enqueued, const Waits &w) {
                    const NativeRange range{buffer.root().native(*lane.space),
                                            buffer.origin + offset, size};
                    return executor().memory().write(enqueued, range,
                                                     static_cast<const std::byte *>(ptr), w);
                };
            },
            blocking != CL_FALSE);
        return conclude(joint.end(), event, blocking != CL_FALSE, call);
    }
    QueueObject &queue = lane_for(whole, buffer, offset, offset + size);
    // Only the device's process needs the program's memory.
    Enqueued command = with_host_memory(
        ptr, {queue, CL_COMMAND_WRITE_BUFFER, accesses, waits, {}, blocking != CL_FALSE, true});
    command.source = plain_region(ptr, size);
    executor().memory().stage(command, ptr, size);
    enqueue(std::move(command), event, [&](Enqueued &enqueued, const Waits &w) {
        const NativeRange range{buffer.root().native(*queue.space), buffer.origin + offset, size};
        const void *const from = enqueued.brought != nullptr ? enqueued.brought.get() : ptr;
        return executor().memory().write(enqueued, range, static_cast<const std::byte *>(from), w);
    });
}

void enqueue_read_buffer_rect(cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking,
                              const size_t *buffer_origin, const size_t *host_origin,
                              const size_t *region, size_t buffer_row_pitch,
                              size_t buffer_slice_pitch, size_t host_row_pitch,
                              size_t host_slice_pitch, void *ptr, cl_uint num_events,
                              const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(whole, buffer);
    const PlacedRect source =
        rect_in(buffer, {buffer_origin, region, buffer_row_pitch, buffer_slice_pitch});
    const PlacedRect target =
        place_rect({host_origin, region, host_row_pitch, host_slice_pitch}, SIZE_MAX);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, buffer);
    check_host_access(buffer, CL_MEM_HOST_WRITE_ONLY);
    QueueObject &queue = lane_for(whole, buffer);
    const std::array accesses{reads(buffer, source)};
    const HostRegion host{at(ptr, target.offset), target.region};
    enqueue(
        with_host_memory(ptr, {queue, CL_COMMAND_READ_BUFFER_RECT, accesses, waits,
                               executor().memory().result_in(host, queue), blocking != CL_FALSE}),
        event, [&](Enqueued &command, const Waits &w) {
            const bool packed = command.result.packed;
            const std::array<std::size_t, 3> start{};
            return clEnqueueReadBufferRect(
                queue.native.get(), buffer.native(*queue.space), CL_FALSE, buffer_origin,
                packed ? start.data() : host_origin, region, buffer_row_pitch, buffer_slice_pitch,
                packed ? 0 : host_row_pitch, packed ? 0 : host_slice_pitch,
                packed ? command.result.data : ptr, w.count, w.events, w.event);
        });
}

void enqueue_write_buffer_rect(Handling handling, cl_command_queue queue_handle,
                               cl_mem buffer_handle, cl_bool blocking, const size_t *buffer_origin,
                               const size_t *host_origin, const size_t *region,
                               size_t buffer_row_pitch, size_t buffer_slice_pitch,
                               size_t host_row_pitch, size_t host_slice_pitch, const void *ptr,
                               cl_uint num_events, const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(whole, buffer);
    const PlacedRect target =
        rect_in(buffer, {buffer_origin, region, buffer_row_pitch, buffer_slice_pitch});
    const PlacedRect source =
        place_rect({host_origin, region, host_row_pitch, host_slice_pitch}, SIZE_MAX);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, buffer);
    check_host_access(buffer, CL_MEM_HOST_READ_ONLY);
    if (handling == Handling::leave_out)
        return leave_out(whole, CL_COMMAND_WRITE_BUFFER_RECT, event);
    QueueObject &queue = lane_for(whole, buffer);
    const std::array accesses{writes(buffer, target)};
    Enqueued write = with_host_memory(
        ptr,
        {queue, CL_COMMAND_WRITE_BUFFER_RECT, accesses, waits, {}, blocking != CL_FALSE, true});
    write.source = HostRegion{const_cast<std::byte *>(at(ptr, source.offset)), source.region};
    enqueue(std::move(write), event, [&](Enqueued &command, const Waits &w) {
        const bool brought = command.brought != nullptr;
        const std::array<std::size_t, 3> start{};
        return clEnqueueWriteBufferRect(
            queue.native.get(), buffer.native(*queue.space), CL_FALSE, buffer_origin,
            brought ? start.data() : host_origin, region, buffer_row_pitch, buffer_slice_pitch,
            brought ? 0 : host_row_pitch, brought ? 0 : host_slice_pitch,
            brought ? command.brought.get() : ptr, w.count, w.events, w.event);
    });
}

// ---- Filling and copying ----

void enqueue_fill_buffer(Handling handling, cl_command_queue queue_handle, cl_mem buffer_handle,
                         const void *pattern, size_t pattern_size, size_t offset, size_t size,
                         cl_uint num_events, const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(whole, buffer);
    check_range(buffer, offset, size);
    if (pattern == nullptr || !is_pattern_size(pattern_size))
        fail(CL_INVALID_VALUE,
             "pattern is NULL, or pattern_size ({}) is not a power of two from 1 to 128",
             pattern_size);
    require(offset % pattern_size == 0 && size % pattern_size == 0, CL_INVALID_VALUE,
            "offset {} or size {} is not a multiple of pattern_size ({})", offset, size,
            pattern_size);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, buffer);
    if (handling == Handling::leave_out) return leave_out(whole, CL_COMMAND_FILL_BUFFER, event);
    const std::array accesses{buffer.access(offset, offset + size, AccessMode::write)};
    if (writes_in_all(whole, waits)) {
        Joint joint(whole, CL_COMMAND_FILL_BUFFER, waits, event != nullptr);
        write_everywhere(whole, joint, accesses.front(), false, [&](QueueObject &lane, Enqueued &) {
            return [&](Enqueued &, const Waits &w) {
                return clEnqueueFillBuffer(lane.native.get(), buffer.root().native(*lane.space),
                                           pattern, pattern_size, buffer.origin + offset, size,
                                           w.count, w.events, w.event);
            };
        });
        return give(joint.end(), event);
    }
    QueueObject &queue = lane_for(whole, buffer, offset, offset + size);
    enqueue({queue, CL_COMMAND_FILL_BUFFER, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                return clEnqueueFillBuffer(queue.native.get(), buffer.root().native(*queue.space),
                                           pattern, pattern_size, buffer.origin + offset, size,
                                           w.count, w.events, w.event);
            });
}

void enqueue_copy_buffer(Handling handling, cl_command_queue queue_handle, cl_mem source_handle,
                         cl_mem target_handle, size_t source_offset, size_t target_offset,
                         size_t size, cl_uint num_events, const cl_event *wait_list,
                         cl_event *event) {
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
    require(read.buffer != write.buffer || read.end <= write.begin || write.end <= read.begin,
            CL_MEM_COPY_OVERLAP,
            "source and destination overlap: {} bytes from byte {} and from byte {} of one buffer",
            size, source_offset, target_offset);
    if (handling == Handling::leave_out) return leave_out(queue, CL_COMMAND_COPY_BUFFER, event);
    if (writes_in_all(queue, waits) &&
        copy_in_place(queue, source, read, target, write, waits, event))
        return;
    QueueObject &lane = lane_for(queue, source, source_offset, source_offset + size);
    const std::array accesses{read, write};
    enqueue(
        {lane, CL_COMMAND_COPY_BUFFER, accesses, waits}, event, [&](Enqueued &, const Waits &w) {
            // OpenCL has allowed this size since 2.1, but drivers may reject it.
            if (size == 0) return enqueue_marker_behind(lane, w);
            return clEnqueueCopyBuffer(lane.native.get(), source.root().native(*lane.space),
                                       target.root().native(*lane.space),
                                       source.origin + source_offset, target.origin + target_offset,
                                       size, w.count, w.events, w.event);
        });
}

void enqueue_copy_buffer_rect(Handling handling, cl_command_queue queue_handle,
                              cl_mem source_handle, cl_mem target_handle,
                              const size_t *source_origin, const size_t *target_origin,
                              const size_t *region, size_t source_row_pitch,
                              size_t source_slice_pitch, size_t target_row_pitch,
                              size_t target_slice_pitch, cl_uint num_events,
                              const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &source = memory_of(source_handle);
    MemObject &target = memory_of(target_handle);
    check_context(whole, source);
    check_context(whole, target);
    const PlacedRect from =
        rect_in(source, {source_origin, region, source_row_pitch, source_slice_pitch});
    const PlacedRect to =
        rect_in(target, {target_origin, region, target_row_pitch, target_slice_pitch});
    require(&source != &target || (from.region.row_pitch == to.region.row_pitch &&
                                   from.region.slice_pitch == to.region.slice_pitch),
            CL_INVALID_VALUE,
            "the pitches of source ({}, {}) and destination ({}, {}) differ; within one buffer "
            "they must be equal",
            from.region.row_pitch, from.region.slice_pitch, to.region.row_pitch,
            to.region.slice_pitch);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, source);
    check_alignment(whole, target);
    const std::array accesses{reads(source, from), writes(target, to)};
    const auto &[read, write] = accesses;
    const bool in_parts_of_one = source.parent && target.parent && read.buffer == write.buffer;
    require(&source == &target
                ? !boxes_overlap(source_origin, target_origin, region)
                : !in_parts_of_one || read.end <= write.begin || write.end <= read.begin,
            CL_MEM_COPY_OVERLAP, "the source region and the destination region overlap");
    if (handling == Handling::leave_out)
        return leave_out(whole, CL_COMMAND_COPY_BUFFER_RECT, event);
    QueueObject &queue = lane_for(whole, target);
    enqueue({queue, CL_COMMAND_COPY_BUFFER_RECT, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                return clEnqueueCopyBufferRect(
                    queue.native.get(), source.native(*queue.space), target.native(*queue.space),
                    source_origin, target_origin, region, source_row_pitch, source_slice_pitch,
                    target_row_pitch, target_slice_pitch, w.count, w.events, w.event);
            });
}

// ---- Migrating ----

void enqueue_migrate_mem_objects(cl_command_queue queue_handle, cl_uint count, const cl_mem *list,
                                 cl_mem_migration_flags flags, cl_uint num_events,
                                 const cl_event *wait_list, cl_event *event) {
    QueueObject &queue = queue_of(queue_handle);
    require(count > 0 && list != nullptr, CL_INVALID_VALUE,
            "num_mem_objects is {} or mem_objects is NULL; expected at least one memory object",
            count);
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
    require((flags & ~cl_mem_migration_flags{CL_MIGRATE_MEM_OBJECT_HOST |
                                             CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED}) == 0,
            CL_INVALID_VALUE,
            "flags is {:#x}; expected a combination of CL_MIGRATE_MEM_OBJECT_HOST and "
            "CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED",
            flags);
    const auto waits = wait_list_of({num_events, wait_list, event}, *queue.context);
    if (queue.is_aggregate())  // the platform decides where bytes are
        return give(Joint(queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, waits, event != nullptr).end(),
                    event);
    enqueue({queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                // Migrations that wait, and migrations to the host, are unsafe on some drivers
                // (docs/dev/drivers.md).
                const bool moves_nothing =
                    queue.space->devices.size() == 1 || (flags & CL_MIGRATE_MEM_OBJECT_HOST) != 0;
                if (moves_nothing || w.count != 0) return enqueue_marker_behind(queue, w);
                std::vector<cl_mem> natives;
                for (cl_uint i = 0; i < count; ++i)
                    natives.push_back(memory_of(list[i]).native(*queue.space));
                return clEnqueueMigrateMemObjects(queue.native.get(), count, natives.data(), flags,
                                                  w.count, w.events, w.event);
            });
}

}  // namespace cldist::cluster
