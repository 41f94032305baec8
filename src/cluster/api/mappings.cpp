// Mapping of buffers, and unmapping of all memory objects.
#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/execution/host_region.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {
namespace {

// With a replicated host, only rank 0 warns, and also rank 1 for rank 0's devices: a native mapping
// in the device's process has no guard.
void warn_of_overrun(const MemObject &object, const Mapped &mapped) {
    const std::size_t beyond = bytes_beyond(mapped);
    const bool is_of_first = executor().topology().process_of(mapped.device_memory) == 0;
    if (beyond == 0 || World::get().self() > (is_of_first ? 1U : 0U)) return;
    log_warning(
        "{} {}, of {} bytes: the program wrote {}{} bytes beyond the end of its map of {} bytes. "
        "These bytes are lost; map all bytes that the program writes",
        object.is_image() ? "image" : "buffer", object.number, object.size,
        beyond == mapped.guard ? "at least " : "", beyond, mapped.size);
}

}  // namespace

void check_map_flags(const MemObject &object, cl_map_flags flags) {
    constexpr cl_map_flags keeping = CL_MAP_READ | CL_MAP_WRITE;
    const bool invalidates = (flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0;
    require((flags & ~(keeping | CL_MAP_WRITE_INVALIDATE_REGION)) == 0 &&
                (!invalidates || (flags & keeping) == 0),
            CL_INVALID_VALUE,
            "map_flags is {:#x}; expected CL_MAP_READ, CL_MAP_WRITE or both, or "
            "CL_MAP_WRITE_INVALIDATE_REGION alone",
            flags);
    if ((flags & CL_MAP_READ) != 0) check_host_access(object, CL_MEM_HOST_WRITE_ONLY);
    if ((flags & CL_MAP_WRITE) != 0 || invalidates)
        check_host_access(object, CL_MEM_HOST_READ_ONLY);
}

void *keep_mapping(MemObject &object, Mapped mapped, const Ref<EventObject> &map,
                   const Ref<EventObject> &part, cl_event *event, bool blocking,
                   const CallHash &call) {
    const bool by_any_queue = object.context->spaces.size() > 1;
    // The native platform returned no address, because the command fails.
    if (mapped.memory == nullptr) {
        mapped.is_native = false;
        mapped.own = own_memory(mapped.end - mapped.begin);
        mapped.memory = mapped.own.get();
    }
    // Unmapping waits for `landed`: a queue of another device or process may unmap, but not before
    // the map has ended. The memory must last until the bytes have arrived.
    const bool ends_natively =
        part && part->native() != nullptr && host_mode().keeps_mapped_memory();
    if (part)
        mapped.landed = (mapped.is_native && by_any_queue) || ends_natively
                            ? executor().ends().ending_of(*part)
                            : part->ending();
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
    host_mode().begin_mapping(mapped);
    object.mappings.push_back(std::move(mapped));
    return memory;
}

void *enqueue_map_buffer(cl_command_queue queue_handle, cl_mem buffer_handle, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, cl_uint num_events,
                         const cl_event *wait_list, cl_event *event, cl_int *) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &buffer = memory_of(buffer_handle);
    check_context(whole, buffer);
    check_range(buffer, offset, size);
    require(size != 0, CL_INVALID_VALUE, "size is 0");
    check_map_flags(buffer, flags);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, buffer);

    QueueObject &queue = lane_for(whole, buffer);
    Mapped mapped{};
    mapped.number = World::get().next_number();
    mapped.device_memory = queue.device->memory;
    mapped.begin = offset;
    mapped.end = offset + size;
    mapped.size = size;
    mapped.flags = flags;
    // The program gets a native mapping if possible. It does not if unmapping moves bytes and
    // another device may unmap. In addition, a map without contents may end before earlier reads.
    const bool may_be_native =
        buffer.host_memory(0) == nullptr || queue.context->spaces.size() == 1;
    mapped.is_native = queue.space != nullptr && host_mode().maps_natively(*queue.context) &&
                       may_be_native &&
                       (!mapped.is_written() || queue.context->has_one_memory ||
                        queue.space->resources()->is_cpu());
    if (!mapped.is_native) {
        mapped.memory = buffer.host_memory(offset);
        if (mapped.memory == nullptr) host_mode().give_memory(queue, buffer, mapped);
    }
    const bool needs_contents = (flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
    // The program may write into the device's memory as soon as it has a map for writing. The map
    // of an attached buffer only reads: unmapping copies the bytes back to the buffer's device.
    const bool only_reads = !mapped.is_written() || buffer.homes().by_program();
    const AccessMode mode = only_reads       ? AccessMode::read
                            : needs_contents ? AccessMode::read_write
                                             : AccessMode::write;
    const std::array accesses{buffer.access(offset, offset + size, mode)};
    Result result;
    if (needs_contents)
        result =
            into_mapping(executor().memory().result_in(plain_region(mapped.memory, size), queue),
                         buffer, mapped);
    const CallHash call = World::get().calls().last();
    Ref<EventObject> part;
    const auto map = run_whole(
        {queue, CL_COMMAND_MAP_BUFFER, accesses, waits, std::move(result), blocking != CL_FALSE},
        event != nullptr || blocking != CL_FALSE || host_mode().keeps_mapped_memory() ||
            (mapped.is_native && queue.context->spaces.size() > 1),
        [&](Enqueued &command, const Waits &w) {
            const cl_mem native = buffer.root().native(*queue.space);
            const std::size_t at_root = buffer.origin + offset;
            cl_int code = CL_SUCCESS;
            if (mapped.is_native) {
                mapped.memory =
                    clEnqueueMapBuffer(queue.native.get(), native, CL_FALSE, flags, at_root, size,
                                       w.count, w.events, w.event, &code);
                command.result.data = at(mapped.memory, 0);
            } else if (needs_contents) {
                code = clEnqueueReadBuffer(queue.native.get(), native, CL_FALSE, at_root, size,
                                           command.result.data, w.count, w.events, w.event);
            } else {
                code = enqueue_marker_behind(queue, w);
            }
            return code;
        },
        &part);
    return keep_mapping(buffer, std::move(mapped), map, part, event, blocking != CL_FALSE, call);
}

void enqueue_unmap_mem_object(cl_command_queue queue_handle, cl_mem memory_handle, void *pointer,
                              cl_uint num_events, const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &object = memory_of(memory_handle);
    Mapped *const at = object.mapping(pointer);
    require(at != nullptr, CL_INVALID_VALUE,
            "mapped_ptr is not an address that a map of this memory object returned");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_context(whole, object);
    const auto by_same_memory = [&](const auto &lane) {
        return lane->device->memory == at->device_memory;
    };
    QueueObject &queue =
        whole.is_aggregate() ? **std::ranges::find_if(whole.lanes, by_same_memory) : whole;
    const Mapped mapped = std::move(*at);
    object.mappings.erase(object.mappings.begin() + (at - object.mappings.data()));
    host_mode().end_mapping(mapped);
    warn_of_overrun(object, mapped);
    if (mapped.is_page_locked) executor().memory().copies().remove_page_locked(mapped.memory);

    std::vector<Access> accesses;
    if (mapped.is_written())
        accesses.push_back(object.access(mapped.begin, mapped.end, mapped.mode_of_writing));
    // Another device of the context may write the bytes back. The device that mapped then only
    // unmaps.
    const bool same_memory = mapped.device_memory == queue.device->memory;
    if (mapped.is_native && !same_memory) {
        Space &space = *queue.context->space(mapped.device_memory);
        const cl_command_queue native = space.transfer_queue().queue;
        const Event passed_on = event_of(mapped.landed, space);
        const cl_event wait = passed_on.get();
        check(clEnqueueUnmapMemObject(native, object.root().native(space), pointer,
                                      wait != nullptr ? 1 : 0, wait != nullptr ? &wait : nullptr,
                                      nullptr),
              "clEnqueueUnmapMemObject");
        flush_if_needed(native);
    }
    // The mapped bytes may still be in transfer to other processes.
    Enqueued command{queue, CL_COMMAND_UNMAP_MEM_OBJECT, accesses, waits};
    command.reads_host_memory = mapped.is_written();
    command.behind = mapped.landed;
    if (mapped.is_written()) command.source = written_region(object, mapped);
    if (host_mode().keeps_mapped_memory()) command.kept = mapped.kept;
    const std::size_t size = mapped.end - mapped.begin;
    // Some drivers block in the call when they write from pageable memory.
    if (mapped.is_written() && !mapped.is_page_locked && !object.is_image())
        executor().memory().stage(command, mapped.memory, size);
    enqueue(std::move(command), event, [&](Enqueued &enqueued, const Waits &w) {
        const cl_mem native = (object.is_image() ? object : object.root()).native(*queue.space);
        if (mapped.is_native && same_memory)
            return clEnqueueUnmapMemObject(queue.native.get(), native, pointer, w.count, w.events,
                                           w.event);
        if (enqueued.brought != nullptr)
            return write_back(queue, object, native, mapped, enqueued.brought.get(), {}, w);
        if (enqueued.staging != nullptr || enqueued.in_blocks) {
            const cl_int code =
                executor().memory().write(enqueued, {native, object.origin + mapped.begin, size},
                                          static_cast<const std::byte *>(mapped.memory), w);
            if (code == CL_SUCCESS) keep_until(*w.event, mapped.kept);
            return code;
        }
        return unmap(queue, object, native, mapped, w, executor().memory().copies());
    });
}

}  // namespace cldist::cluster
