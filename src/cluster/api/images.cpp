// Images. For the schedule, an image is a buffer that is always used whole or, if it is created
// from a buffer, a range of that buffer.
#include <algorithm>
#include <map>
#include <optional>

#include "base/log.hpp"
#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/api/record.hpp"
#include "cluster/execution/host_region.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {
namespace {

// ---- Creation ----

bool operator==(const cl_image_format &a, const cl_image_format &b) {
    return a.image_channel_order == b.image_channel_order &&
           a.image_channel_data_type == b.image_channel_data_type;
}

bool makes_images_of_buffers(const DeviceObject &device) {
    return device.text(CL_DEVICE_EXTENSIONS).find("cl_khr_image2d_from_buffer") !=
           std::string::npos;
}

/// Returns the buffer from which an image is to be created. Throws an Error if it is not suitable.
MemObject &checked_buffer(const ContextObject &context, const cl_image_desc &desc,
                          std::size_t element) {
    MemObject *const buffer = MemObject::from(desc.buffer);
    require(buffer != nullptr && !buffer->is_image() && buffer->context.get() == &context,
            CL_INVALID_IMAGE_DESCRIPTOR, "image_desc.buffer is not a buffer of the context");
    if (desc.image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER) return *buffer;
    for (const auto &device : context.devices) {
        if (!has_images(*device)) continue;
        require(makes_images_of_buffers(*device), CL_INVALID_OPERATION,
                "a device of the context does not support 2D images from buffers "
                "(cl_khr_image2d_from_buffer)");
        const std::size_t row = device->info<cl_uint>(CL_DEVICE_IMAGE_PITCH_ALIGNMENT) * element;
        const std::size_t base =
            device->info<cl_uint>(CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT) * element;
        require((row == 0 || desc.image_row_pitch % row == 0) &&
                    (base == 0 || buffer->origin % base == 0),
                CL_INVALID_IMAGE_FORMAT_DESCRIPTOR,
                "the row pitch {} or the buffer's origin {} is not aligned; expected multiples of "
                "{} and {}",
                desc.image_row_pitch, buffer->origin, row, base);
    }
    return *buffer;
}

void check_desc(const cl_image_desc &desc, std::size_t element, const void *host_ptr) {
    require(is_image_type(desc.image_type), CL_INVALID_IMAGE_DESCRIPTOR,
            "image_type is {:#x}, which is not an image type", desc.image_type);
    const auto extent = extents(desc);
    require(extent[0] != 0 && extent[1] != 0 && extent[2] != 0, CL_INVALID_IMAGE_DESCRIPTOR,
            "the image is empty");
    require(desc.num_mip_levels == 0 && desc.num_samples == 0, CL_INVALID_IMAGE_DESCRIPTOR,
            "num_mip_levels is {} and num_samples is {}; expected 0", desc.num_mip_levels,
            desc.num_samples);
    const bool of_buffer = desc.image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER ||
                           (desc.image_type == CL_MEM_OBJECT_IMAGE2D && desc.buffer != nullptr);
    require(of_buffer == (desc.buffer != nullptr), CL_INVALID_IMAGE_DESCRIPTOR,
            "image_desc.buffer is {}NULL, but images of this type {} a buffer",
            desc.buffer == nullptr ? "" : "not ", of_buffer ? "need" : "cannot be created from");
    const bool has_pitches = desc.image_row_pitch != 0 || desc.image_slice_pitch != 0;
    const bool may_have_pitches =
        desc.buffer != nullptr ? desc.image_type == CL_MEM_OBJECT_IMAGE2D : host_ptr != nullptr;
    require(may_have_pitches || !has_pitches, CL_INVALID_IMAGE_DESCRIPTOR,
            "pitch given without host_ptr or buffer");
    require(desc.image_row_pitch % element == 0, CL_INVALID_IMAGE_DESCRIPTOR,
            "the row pitch is {}; expected a multiple of the element's {} bytes",
            desc.image_row_pitch, element);
}

// A platform without images, or without this type, may return an error: then it supports no format.
// NVIDIA's platform returns pairs of order and type that the specification does not have.
std::vector<cl_image_format> native_formats(const Space &space, cl_mem_flags flags,
                                            cl_mem_object_type type) {
    // The default; NVIDIA's driver returns no formats for 0.
    if (flags == 0) flags = CL_MEM_READ_WRITE;
    cl_uint count = 0;
    if (clGetSupportedImageFormats(space.context.get(), flags, type, 0, nullptr, &count) !=
        CL_SUCCESS)
        return {};
    std::vector<cl_image_format> formats(count);
    if (count != 0)
        clGetSupportedImageFormats(space.context.get(), flags, type, count, formats.data(),
                                   nullptr);
    std::erase_if(formats, [](const cl_image_format &format) { return element_size(format) == 0; });
    return formats;
}

bool contains(const std::vector<cl_image_format> &formats, const cl_image_format &format) {
    return std::any_of(formats.begin(), formats.end(),
                       [&](const cl_image_format &other) { return format == other; });
}

/// Creates the native images in all processes. If one process fails, all do.
void make_natives_everywhere(MemObject &image) {
    in_all([&] {
        // Platforms report unsupported formats with different errors, or create the image anyway.
        constexpr cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
        const cl_mem_flags given = image.flags & access;
        const bool supported = std::all_of(
            image.context->spaces.begin(), image.context->spaces.end(), [&](const auto &space) {
                const auto formats = native_formats(*space, given, image.type);
                return formats.empty() || contains(formats, image.format);
            });
        require(supported, CL_IMAGE_FORMAT_NOT_SUPPORTED,
                "a device of the context does not support images of this format");
        image.make_natives();
    });
}

cl_mem make_image(cl_context context_handle, std::vector<cl_mem_properties> properties,
                  cl_mem_flags flags, const cl_image_format *format,
                  const cl_image_desc *given_desc, void *host_ptr) {
    ContextObject &context = context_of(context_handle);
    if (!properties.empty() && properties.front() != 0)
        fail(CL_INVALID_PROPERTY, "unknown image property {:#x}", properties.front());
    check_mem_flags(flags);
    const std::size_t element = format != nullptr ? element_size(*format) : 0;
    require(element != 0, CL_INVALID_IMAGE_FORMAT_DESCRIPTOR,
            "image_format is NULL, or its channel order and channel type cannot be combined");
    require(given_desc != nullptr, CL_INVALID_IMAGE_DESCRIPTOR, "image_desc is NULL");
    const cl_image_desc desc = as_read(*given_desc);
    check_desc(desc, element, host_ptr);
    const cl_mem_object_type type = desc.image_type;
    const auto extent = extents(desc);
    const Pitches pitches =
        checked_pitches(type, extent[0] * element, extent[1], desc.image_row_pitch,
                        desc.image_slice_pitch, CL_INVALID_IMAGE_DESCRIPTOR);
    check_some_device_has_images(context);
    require(std::any_of(context.devices.begin(), context.devices.end(),
                        [&](const auto &device) { return has_images_like(*device, desc); }),
            CL_INVALID_IMAGE_SIZE,
            "the image exceeds the size limits of all devices of the context");
    Ref<MemObject> parent;
    std::size_t size = extent[0] * extent[1] * extent[2] * element;
    if (desc.buffer != nullptr) {
        parent = Ref<MemObject>(&checked_buffer(context, desc, element));
        size = pitches.row * extent[1];
        if (size > parent->size)
            fail(CL_INVALID_IMAGE_DESCRIPTOR, "the image needs {} bytes, but the buffer has {}",
                 size, parent->size);
    }
    check_host_ptr(flags, host_ptr);
    if (parent) flags = inherited_flags(*parent, flags);
    flags = with_device_access(flags);

    const std::size_t host_size =
        (extent[2] - 1) * pitches.slice + (extent[1] - 1) * pitches.row + extent[0] * element;
    const GivenContents given =
        host_mode().given_contents(context, flags, parent ? nullptr : host_ptr, host_size);
    auto image = std::make_unique<MemObject>(context, given.flags, size);
    image->type = type;
    image->host_ptr = parent ? parent->host_ptr : given.host_ptr;
    image->properties = std::move(properties);
    image->format = *format;
    image->desc = desc;
    image->element_size = element;
    image->pitches = pitches;
    image->parent = parent;
    World &world = World::get();
    if (parent)
        image->origin = parent->origin;
    else
        world.executor().objects().know(
            *image, host_ptr != nullptr ? Contents::everywhere : Contents::undefined);
    make_natives_everywhere(*image);
    if (!parent) image->host_ptr = given.program_ptr;
    image->set_number(world.next_number());
    return image.release()->handle();
}

cl_image_desc plain_desc(cl_mem_object_type type, std::size_t width, std::size_t height,
                         std::size_t depth) {
    require(width != 0 && height != 0 && depth != 0, CL_INVALID_IMAGE_SIZE, "the image is empty");
    cl_image_desc desc{};
    desc.image_type = type;
    desc.image_width = width;
    desc.image_height = height;
    desc.image_depth = depth;
    return desc;
}

/// The devices whose platforms answer for all: for each list of device types in one memory, the
/// first device of the first such memory.
std::map<std::vector<std::uint32_t>, const DeviceObject *> answering_memories(
    const ContextObject &context) {
    std::map<MemoryId, std::vector<const DeviceObject *>> memories;
    for (const auto &device : context.devices) memories[device->memory].push_back(device.get());
    std::map<std::vector<std::uint32_t>, const DeviceObject *> first;
    for (const auto &[memory, devices] : memories) {
        std::vector<std::uint32_t> types;
        for (const DeviceObject *const device : devices) types.push_back(device->type);
        first.emplace(std::move(types), devices.front());
    }
    return first;
}

/// Returns the formats that all devices with images support, in the first device's order.
const std::vector<cl_image_format> &common_formats(const ContextObject &context, cl_mem_flags flags,
                                                   cl_mem_object_type type) {
    const std::pair key(flags, type);
    if (const auto known = context.image_formats.find(key); known != context.image_formats.end())
        return known->second;
    const auto memories = answering_memories(context);
    DeviceList answering;
    for (const auto &device : context.devices)
        if (std::any_of(memories.begin(), memories.end(),
                        [&](const auto &m) { return m.second == device.get(); }))
            answering.add(*device);
    const auto say = [&](Process process) {
        Packer packer;
        for (const auto &device : answering) {
            if (device->process != process) continue;
            const auto formats =
                native_formats(*context.space(device->answering_memory), flags, type);
            packer.put_bytes(std::as_bytes(std::span(formats)));
        }
        return packer.take();
    };
    std::optional<std::vector<cl_image_format>> common;
    for (const Blob &blob : Exchange().of(processes_of(answering), say)) {
        for (Unpacker unpacker(blob); !unpacker.empty();) {
            const Blob bytes = unpacker.get_bytes();
            std::vector<cl_image_format> formats(bytes.size() / sizeof(cl_image_format));
            if (formats.empty()) continue;
            std::memcpy(formats.data(), bytes.data(), formats.size() * sizeof(cl_image_format));
            if (!common) {
                common = std::move(formats);
                continue;
            }
            std::erase_if(
                *common, [&](const cl_image_format &format) { return !contains(formats, format); });
        }
    }
    return context.image_formats[key] = common.value_or(std::vector<cl_image_format>());
}

// ---- Parts of images ----

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
            {part.region[0] * image.element_size, part.region[1], part.region[2]},
            pitches.row,
            pitches.slice};
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
struct Place {
    MemObject *object;
    std::size_t offset;  ///< in bytes, for a buffer
    std::array<std::size_t, 3> origin;

    /// Replaces a sub-buffer by its root, and a 1D image that is created from a buffer by that
    /// buffer: PoCL 3.1 copies such images wrongly or not at all.
    [[nodiscard]] Place in_root() const {
        if (object->type == CL_MEM_OBJECT_IMAGE1D_BUFFER)
            return {&object->root(), object->origin + origin[0] * object->element_size, {}};
        if (object->is_image()) return *this;
        return {&object->root(), object->origin + offset, {}};
    }
};

/// Copies `region`, of `size` bytes.
cl_int copy_part(const QueueObject &queue, const Place &source, const Place &target,
                 const std::array<std::size_t, 3> &region, std::size_t size, const Waits &waits) {
    const Place from = source.in_root();
    const Place to = target.in_root();
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

void check_some_device_has_images(const ContextObject &context) {
    require(std::any_of(context.devices.begin(), context.devices.end(),
                        [](const auto &device) { return has_images(*device); }),
            CL_INVALID_OPERATION, "no device of the context supports images");
}

cl_mem create_image(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                    const cl_image_desc *desc, void *host_ptr, cl_int *) {
    return make_image(context, {}, flags, format, desc, host_ptr);
}

cl_mem create_image_with_properties(cl_context context, const cl_mem_properties *properties,
                                    cl_mem_flags flags, const cl_image_format *format,
                                    const cl_image_desc *desc, void *host_ptr, cl_int *) {
    std::vector<cl_mem_properties> list;
    if (properties != nullptr) list.push_back(properties[0]);
    return make_image(context, std::move(list), flags, format, desc, host_ptr);
}

cl_mem create_image_2d(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                       size_t width, size_t height, size_t row_pitch, void *host_ptr, cl_int *) {
    cl_image_desc desc = plain_desc(CL_MEM_OBJECT_IMAGE2D, width, height, 1);
    desc.image_row_pitch = row_pitch;
    return make_image(context, {}, flags, format, &desc, host_ptr);
}

cl_mem create_image_3d(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                       size_t width, size_t height, size_t depth, size_t row_pitch,
                       size_t slice_pitch, void *host_ptr, cl_int *) {
    cl_image_desc desc = plain_desc(CL_MEM_OBJECT_IMAGE3D, width, height, depth);
    desc.image_row_pitch = row_pitch;
    desc.image_slice_pitch = slice_pitch;
    return make_image(context, {}, flags, format, &desc, host_ptr);
}

// ---- Queries ----

void get_supported_image_formats(cl_context context_handle, cl_mem_flags flags,
                                 cl_mem_object_type type, cl_uint num_entries,
                                 cl_image_format *formats, cl_uint *num_formats) {
    const Ref<ContextObject> held(&context_of(context_handle));
    const ContextObject &context = *held;
    check_mem_flags(flags & ~cl_mem_flags{CL_MEM_KERNEL_READ_AND_WRITE});
    require(is_image_type(type), CL_INVALID_VALUE,
            "image_type is {:#x}, which is not an image type", type);
    require(num_entries != 0 || formats == nullptr, CL_INVALID_VALUE,
            "num_entries is 0, but image_formats is not NULL");
    const auto &common = common_formats(context, flags, type);
    if (formats != nullptr)
        std::copy_n(common.begin(), std::min<std::size_t>(num_entries, common.size()), formats);
    if (num_formats != nullptr) *num_formats = static_cast<cl_uint>(common.size());
}

void get_image_info(cl_mem memory, cl_image_info param, size_t size, void *value,
                    size_t *size_ret) {
    const MemObject &image = memory_of(memory);
    require(image.is_image(), CL_INVALID_MEM_OBJECT,
            "the memory object is a buffer; expected an image");
    const Answer answer{size, value, size_ret};
    const cl_image_desc &desc = image.desc;
    switch (param) {
        case CL_IMAGE_FORMAT: return answer.give(image.format);
        case CL_IMAGE_ELEMENT_SIZE: return answer.give(image.element_size);
        case CL_IMAGE_ROW_PITCH:
            return answer.give(desc.image_row_pitch != 0 ? desc.image_row_pitch
                                                         : desc.image_width * image.element_size);
        case CL_IMAGE_SLICE_PITCH:
            return answer.give(has_slices(image.type) ? image.pitches.slice : std::size_t{0});
        case CL_IMAGE_WIDTH: return answer.give(desc.image_width);
        case CL_IMAGE_HEIGHT: return answer.give(desc.image_height);
        case CL_IMAGE_DEPTH: return answer.give(desc.image_depth);
        case CL_IMAGE_ARRAY_SIZE: return answer.give(desc.image_array_size);
        case CL_IMAGE_BUFFER:
            return answer.give(image.parent ? image.parent->handle()
                                            : static_cast<cl_mem>(nullptr));
        case CL_IMAGE_NUM_MIP_LEVELS: return answer.give(desc.num_mip_levels);
        case CL_IMAGE_NUM_SAMPLES: return answer.give(desc.num_samples);
        default: no_such_param(param);
    }
}

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
    require(source.format == target.format, CL_IMAGE_FORMAT_MISMATCH,
            "the formats of the two images differ");
    const Part from = checked_part(source, source_origin, region);
    const Part to = checked_part(target, target_origin, region);
    const auto waits = wait_list_of({num_events, wait_list, event}, *whole.context);
    check_device(whole, source);
    check_device(whole, target);
    require(&source != &target || !boxes_overlap(from.origin, from.region, to.origin, to.region),
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
