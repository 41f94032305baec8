// Commands on images.
#include <algorithm>

#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/execution/host_region.hpp"

namespace cldist::cluster {
namespace {

struct Part {
    std::array<std::size_t, 3> origin;
    std::array<std::size_t, 3> region;
};

void check_image(const QueueObject &queue, const MemObject &image) {
    check_context(queue, image);
    require(image.is_image(), CL_INVALID_MEM_OBJECT,
            "the memory object is a buffer; expected an image");
}

Part checked_part(const MemObject &image, const size_t *origin, const size_t *region) {
    require(origin != nullptr && region != nullptr, CL_INVALID_VALUE,
            "origin or region is NULL; expected arrays of three elements");
    const auto extent = extents(image.desc);
    for (std::size_t i = 0; i < 3; ++i)
        if (region[i] == 0 || origin[i] > extent[i] || region[i] > extent[i] - origin[i])
            fail(CL_INVALID_VALUE,
                 "origin[{0}] is {1} and region[{0}] is {2}; expected a region of at least 1 "
                 "within the image's size of {3}",
                 i, origin[i], region[i], extent[i]);
    return {{origin[0], origin[1], origin[2]}, {region[0], region[1], region[2]}};
}

/// These errors come after those of the wait list.
void check_device(const QueueObject &queue, const MemObject &image) {
    require(has_images(*queue.device), CL_INVALID_OPERATION,
            "the queue's device does not support images");
    require(has_images_like(*queue.device, image.desc), CL_INVALID_IMAGE_SIZE,
            "the image exceeds the size limits of the queue's device");
}

std::size_t bytes_of(const MemObject &image, const Part &part) {
    return part.region[0] * part.region[1] * part.region[2] * image.element_size;
}

Access written(MemObject &image, const Part &part) {
    // The bytes between the rows of an image that is created from a buffer are unchanged.
    return image.whole(bytes_of(image, part) == image.size ? AccessMode::write
                                                           : AccessMode::read_write);
}

/// Returns the layout of a part in the program's memory. Throws an Error if the pitches are wrong.
Pitches checked_host_pitches(const MemObject &image, const Part &part, std::size_t row,
                             std::size_t slice) {
    return checked_pitches(image.type, part.region[0] * image.element_size, part.region[1], row,
                           slice, CL_INVALID_VALUE);
}

HostRegion host_region(const MemObject &image, const Part &part, const Pitches &pitches,
                       void *memory) {
    return {at(memory, 0),
            {part.region[0] * image.element_size, part.region[1], part.region[2], pitches.row,
             pitches.slice}};
}

/// Reads a part to `memory` or, if the result is packed, without gaps to `result.data`.
cl_int read_part(const QueueObject &queue, MemObject &image, const Part &part,
                 const Pitches &pitches, void *memory, const Result &result, const Waits &waits) {
    const bool packed = result.packed;
    return clEnqueueReadImage(
        queue.native.get(), image.native(*queue.space), CL_FALSE, part.origin.data(),
        part.region.data(), packed ? 0 : pitches.row, packed ? 0 : pitches.native_slice(image.type),
        packed ? result.data : memory, waits.count, waits.events, waits.event);
}

/// Where a copy begins in its memory object.
struct CopyEnd {
    MemObject *object;
    std::size_t offset;  ///< in bytes, for a buffer
    std::array<std::size_t, 3> origin;

    /// Replaces a sub-buffer by its root, and a 1D image that is created from a buffer by that
    /// buffer, because copies of such images are not reliable.
    [[nodiscard]] CopyEnd in_root() const {
        if (object->type == CL_MEM_OBJECT_IMAGE1D_BUFFER)
            return {&object->root(), object->origin + origin[0] * object->element_size, {}};
        if (object->is_image()) return *this;
        return {&object->root(), object->origin + offset, {}};
    }
};

/// Copies `region`, of `size` bytes.
cl_int copy_part(const QueueObject &queue, const CopyEnd &source, const CopyEnd &target,
                 const std::array<std::size_t, 3> &region, std::size_t size, const Waits &waits) {
    const CopyEnd from = source.in_root();
    const CopyEnd to = target.in_root();
    const cl_command_queue native = queue.native.get();
    const cl_mem from_memory = from.object->native(*queue.space);
    const cl_mem to_memory = to.object->native(*queue.space);
    if (from.object->is_image())
        return to.object->is_image()
                   ? clEnqueueCopyImage(native, from_memory, to_memory, from.origin.data(),
                                        to.origin.data(), region.data(), waits.count, waits.events,
                                        waits.event)
                   : clEnqueueCopyImageToBuffer(native, from_memory, to_memory, from.origin.data(),
                                                region.data(), to.offset, waits.count, waits.events,
                                                waits.event);
    return to.object->is_image()
               ? clEnqueueCopyBufferToImage(native, from_memory, to_memory, from.offset,
                                            to.origin.data(), region.data(), waits.count,
                                            waits.events, waits.event)
               : clEnqueueCopyBuffer(native, from_memory, to_memory, from.offset, to.offset, size,
                                     waits.count, waits.events, waits.event);
}

}  // namespace

// ---- Reading and writing ----

void enqueue_read_image(cl_command_queue queue_handle, cl_mem image_handle, cl_bool blocking,
                        const size_t *origin, const size_t *region, size_t row_pitch,
                        size_t slice_pitch, void *ptr, cl_uint num_events,
                        const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &image = memory_of(image_handle);
    check_image(whole, image);
    const Part part = checked_part(image, origin, region);
    const Pitches pitches = checked_host_pitches(image, part, row_pitch, slice_pitch);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_device(whole, image);
    check_host_access(image, CL_MEM_HOST_WRITE_ONLY);
    QueueObject &queue = lane_for(whole, image);
    const std::array accesses{image.whole(AccessMode::read)};
    enqueue(with_host_memory(
                ptr, {queue, CL_COMMAND_READ_IMAGE, accesses, waits,
                      executor().memory().result_in(host_region(image, part, pitches, ptr), queue),
                      blocking != CL_FALSE}),
            event, [&](Enqueued &command, const Waits &w) {
                return read_part(queue, image, part, pitches, ptr, command.result, w);
            });
}

void enqueue_write_image(cl_command_queue queue_handle, cl_mem image_handle, cl_bool blocking,
                         const size_t *origin, const size_t *region, size_t row_pitch,
                         size_t slice_pitch, const void *ptr, cl_uint num_events,
                         const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &image = memory_of(image_handle);
    check_image(whole, image);
    const Part part = checked_part(image, origin, region);
    const Pitches pitches = checked_host_pitches(image, part, row_pitch, slice_pitch);
    require(ptr != nullptr, CL_INVALID_VALUE, "ptr is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_device(whole, image);
    check_host_access(image, CL_MEM_HOST_READ_ONLY);
    QueueObject &queue = lane_for(whole, image);
    const std::array accesses{written(image, part)};
    // Only the device's process needs the program's memory.
    Enqueued write = with_host_memory(
        ptr, {queue, CL_COMMAND_WRITE_IMAGE, accesses, waits, {}, blocking != CL_FALSE, true});
    write.source = host_region(image, part, pitches, const_cast<void *>(ptr));
    enqueue(std::move(write), event, [&](Enqueued &command, const Waits &w) {
        const bool brought = command.brought != nullptr;
        return clEnqueueWriteImage(
            queue.native.get(), image.native(*queue.space), CL_FALSE, part.origin.data(),
            part.region.data(), brought ? 0 : pitches.row,
            brought ? 0 : pitches.native_slice(image.type), brought ? command.brought.get() : ptr,
            w.count, w.events, w.event);
    });
}

// ---- Filling and copying ----

void enqueue_fill_image(cl_command_queue queue_handle, cl_mem image_handle, const void *color,
                        const size_t *origin, const size_t *region, cl_uint num_events,
                        const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &image = memory_of(image_handle);
    check_image(whole, image);
    require(color != nullptr, CL_INVALID_VALUE, "fill_color is NULL");
    const Part part = checked_part(image, origin, region);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_device(whole, image);
    QueueObject &queue = lane_for(whole, image);
    const std::array accesses{written(image, part)};
    enqueue({queue, CL_COMMAND_FILL_IMAGE, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                return clEnqueueFillImage(queue.native.get(), image.native(*queue.space), color,
                                          part.origin.data(), part.region.data(), w.count, w.events,
                                          w.event);
            });
}

void enqueue_copy_image(cl_command_queue queue_handle, cl_mem source_handle, cl_mem target_handle,
                        const size_t *source_origin, const size_t *target_origin,
                        const size_t *region, cl_uint num_events, const cl_event *wait_list,
                        cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &source = memory_of(source_handle);
    MemObject &target = memory_of(target_handle);
    check_image(whole, source);
    check_image(whole, target);
    require(source.format.image_channel_order == target.format.image_channel_order &&
                source.format.image_channel_data_type == target.format.image_channel_data_type,
            CL_IMAGE_FORMAT_MISMATCH, "the formats of the two images differ");
    const Part from = checked_part(source, source_origin, region);
    const Part to = checked_part(target, target_origin, region);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_device(whole, source);
    check_device(whole, target);
    require(&source != &target || !boxes_overlap(source_origin, target_origin, region),
            CL_MEM_COPY_OVERLAP, "the source region and the destination region overlap");
    QueueObject &queue = lane_for(whole, target);
    const std::array accesses{source.whole(AccessMode::read), written(target, to)};
    enqueue({queue, CL_COMMAND_COPY_IMAGE, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                return copy_part(queue, {&source, 0, from.origin}, {&target, 0, to.origin},
                                 to.region, bytes_of(source, from), w);
            });
}

void enqueue_copy_image_to_buffer(cl_command_queue queue_handle, cl_mem source_handle,
                                  cl_mem target_handle, const size_t *origin, const size_t *region,
                                  size_t offset, cl_uint num_events, const cl_event *wait_list,
                                  cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &source = memory_of(source_handle);
    MemObject &target = memory_of(target_handle);
    check_image(whole, source);
    check_context(whole, target);
    const Part part = checked_part(source, origin, region);
    const std::size_t size = bytes_of(source, part);
    check_range(target, offset, size);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, target);
    check_device(whole, source);
    QueueObject &queue = lane_for(whole, target);
    const std::array accesses{source.whole(AccessMode::read),
                              target.access(offset, offset + size, AccessMode::write)};
    enqueue({queue, CL_COMMAND_COPY_IMAGE_TO_BUFFER, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                return copy_part(queue, {&source, 0, part.origin}, {&target, offset, {}},
                                 part.region, size, w);
            });
}

void enqueue_copy_buffer_to_image(cl_command_queue queue_handle, cl_mem source_handle,
                                  cl_mem target_handle, size_t offset, const size_t *origin,
                                  const size_t *region, cl_uint num_events,
                                  const cl_event *wait_list, cl_event *event) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &source = memory_of(source_handle);
    MemObject &target = memory_of(target_handle);
    check_context(whole, source);
    check_image(whole, target);
    const Part part = checked_part(target, origin, region);
    const std::size_t size = bytes_of(target, part);
    check_range(source, offset, size);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_alignment(whole, source);
    check_device(whole, target);
    QueueObject &queue = lane_for(whole, target);
    const std::array accesses{source.access(offset, offset + size, AccessMode::read),
                              written(target, part)};
    enqueue({queue, CL_COMMAND_COPY_BUFFER_TO_IMAGE, accesses, waits}, event,
            [&](Enqueued &, const Waits &w) {
                return copy_part(queue, {&source, offset, {}}, {&target, 0, part.origin},
                                 part.region, size, w);
            });
}

// ---- Mapping ----

// The program gets separate memory or that of host_ptr, because other processes do not know the
// pitches of native mappings.
void *enqueue_map_image(cl_command_queue queue_handle, cl_mem image_handle, cl_bool blocking,
                        cl_map_flags flags, const size_t *origin, const size_t *region,
                        size_t *row_pitch, size_t *slice_pitch, cl_uint num_events,
                        const cl_event *wait_list, cl_event *event, cl_int *) {
    QueueObject &whole = queue_of(queue_handle);
    MemObject &image = memory_of(image_handle);
    check_image(whole, image);
    const Part part = checked_part(image, origin, region);
    check_map_flags(image, flags);
    require(row_pitch != nullptr && (slice_pitch != nullptr || !has_slices(image.type)),
            CL_INVALID_VALUE,
            "image_row_pitch is NULL, or the image has slices and image_slice_pitch is NULL");
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_device(whole, image);

    QueueObject &queue = lane_for(whole, image);
    Mapped mapped{};
    mapped.number = World::get().next_number();
    mapped.device_memory = queue.device->memory;
    mapped.end = image.size;
    mapped.flags = flags;
    mapped.origin = part.origin;
    mapped.region = part.region;
    mapped.mode_of_writing = written(image, part).mode;
    const auto &[x, y, z] = part.origin;
    mapped.pitches = image.pitches;
    mapped.memory =
        image.host_memory(z * image.pitches.slice + y * image.pitches.row + x * image.element_size);
    if (mapped.memory == nullptr) mapped.pitches = checked_host_pitches(image, part, 0, 0);
    mapped.size = (part.region[2] - 1) * mapped.pitches.slice +
                  (part.region[1] - 1) * mapped.pitches.row + part.region[0] * image.element_size;
    if (mapped.memory == nullptr) host_mode().give_memory(queue, image, mapped);
    const bool needs_contents = (flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
    std::vector<Access> accesses;
    Result result;
    if (needs_contents) {
        accesses.push_back(image.whole(AccessMode::read));
        result = into_mapping(executor().memory().result_in(
                                  host_region(image, part, mapped.pitches, mapped.memory), queue),
                              image, mapped);
    }
    const CallHash call = World::get().calls().last();
    Ref<EventObject> mapped_part;
    const auto map = run_whole(
        {queue, CL_COMMAND_MAP_IMAGE, accesses, waits, std::move(result), blocking != CL_FALSE},
        event != nullptr || blocking != CL_FALSE || host_mode().keeps_mapped_memory(),
        [&](Enqueued &command, const Waits &w) {
            if (!needs_contents) return enqueue_marker_behind(queue, w);
            return read_part(queue, image, part, mapped.pitches, mapped.memory, command.result, w);
        },
        &mapped_part);
    *row_pitch = mapped.pitches.row;
    if (slice_pitch != nullptr) *slice_pitch = has_slices(image.type) ? mapped.pitches.slice : 0;
    return keep_mapping(image, std::move(mapped), map, mapped_part, event, blocking != CL_FALSE,
                        call);
}

}  // namespace cldist::cluster
