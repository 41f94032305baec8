// Images: creation and queries. For the schedule, an image is a buffer that is always used whole
// or, if it is created from a buffer, a range of that buffer.
#include <algorithm>
#include <map>
#include <optional>

#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/api/record.hpp"
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
// Pairs of order and type that the specification does not have are left out.
std::vector<cl_image_format> native_formats(const Space &space, cl_mem_flags flags,
                                            cl_mem_object_type type) {
    // The default, for which a driver may return no formats.
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
    return std::ranges::any_of(formats,
                               [&](const cl_image_format &other) { return format == other; });
}

/// Creates the native images in all processes. If one process fails, all do.
void make_natives_everywhere(MemObject &image) {
    in_all([&] {
        // Platforms report unsupported formats with different errors, or create the image anyway.
        constexpr cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
        const cl_mem_flags given = image.flags & access;
        const bool supported = std::ranges::all_of(image.context->spaces, [&](const auto &space) {
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
    require(std::ranges::any_of(context.devices,
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
        if (std::ranges::any_of(memories, [&](const auto &m) { return m.second == device.get(); }))
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

}  // namespace

void check_some_device_has_images(const ContextObject &context) {
    require(std::ranges::any_of(context.devices,
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

}  // namespace cldist::cluster
