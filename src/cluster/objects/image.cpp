#include "cluster/objects/image.hpp"

#include <algorithm>

#include "cluster/objects/errors.hpp"

namespace cldist::cluster {
namespace {

std::size_t channels(cl_channel_order order) {
    switch (order) {
        case CL_R:
        case CL_A:
        case CL_Rx:
        case CL_INTENSITY:
        case CL_LUMINANCE:
        case CL_DEPTH: return 1;
        case CL_RG:
        case CL_RA:
        case CL_RGx: return 2;
        case CL_sRGB: return 3;
        case CL_RGBA:
        case CL_BGRA:
        case CL_ARGB:
        case CL_ABGR:
        case CL_sRGBx:
        case CL_sRGBA:
        case CL_sBGRA: return 4;
        default: return 0;  // invalid, or a packed format
    }
}

std::size_t channel_size(cl_channel_type type) {
    switch (type) {
        case CL_SNORM_INT8:
        case CL_UNORM_INT8:
        case CL_SIGNED_INT8:
        case CL_UNSIGNED_INT8: return 1;
        case CL_SNORM_INT16:
        case CL_UNORM_INT16:
        case CL_SIGNED_INT16:
        case CL_UNSIGNED_INT16:
        case CL_HALF_FLOAT: return 2;
        case CL_SIGNED_INT32:
        case CL_UNSIGNED_INT32:
        case CL_FLOAT: return 4;
        default: return 0;  // invalid, or a packed format
    }
}

bool is_type_in(cl_channel_type type, std::initializer_list<cl_channel_type> types) {
    return std::ranges::find(types, type) != types.end();
}

bool go_together(cl_channel_order order, cl_channel_type type) {
    switch (order) {
        case CL_INTENSITY:
        case CL_LUMINANCE:
            return is_type_in(type, {CL_UNORM_INT8, CL_UNORM_INT16, CL_SNORM_INT8, CL_SNORM_INT16,
                                     CL_HALF_FLOAT, CL_FLOAT});
        case CL_DEPTH: return is_type_in(type, {CL_UNORM_INT16, CL_FLOAT});
        case CL_BGRA:
        case CL_ARGB:
        case CL_ABGR: return channel_size(type) == 1;
        case CL_sRGB:
        case CL_sRGBx:
        case CL_sRGBA:
        case CL_sBGRA: return type == CL_UNORM_INT8;
        default: return true;
    }
}

}  // namespace

std::size_t element_size(const cl_image_format &format) {
    const cl_channel_order order = format.image_channel_order;
    const cl_channel_type type = format.image_channel_data_type;
    if (order == CL_RGB || order == CL_RGBx) {
        if (type == CL_UNORM_SHORT_565 || type == CL_UNORM_SHORT_555) return 2;
        return type == CL_UNORM_INT_101010 ? 4 : 0;
    }
    if (order == CL_RGBA && type == CL_UNORM_INT_101010_2) return 4;
    return go_together(order, type) ? channels(order) * channel_size(type) : 0;
}

cl_image_desc as_read(const cl_image_desc &desc) {
    cl_image_desc read{};
    read.image_type = desc.image_type;
    if (!is_image_type(desc.image_type)) return read;
    const bool is_3d = desc.image_type == CL_MEM_OBJECT_IMAGE3D;
    read.image_width = desc.image_width;
    if (is_3d || desc.image_type == CL_MEM_OBJECT_IMAGE2D ||
        desc.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY)
        read.image_height = desc.image_height;
    if (is_3d) read.image_depth = desc.image_depth;
    if (is_image_array(desc.image_type)) read.image_array_size = desc.image_array_size;
    read.image_row_pitch = desc.image_row_pitch;
    if (has_slices(desc.image_type)) read.image_slice_pitch = desc.image_slice_pitch;
    // Such images are not supported. It only matters whether these fields are 0.
    read.num_mip_levels = desc.num_mip_levels != 0 ? 1 : 0;
    read.num_samples = desc.num_samples != 0 ? 1 : 0;
    read.buffer = desc.buffer;
    return read;
}

std::array<std::size_t, 3> extents(const cl_image_desc &desc) {
    switch (desc.image_type) {
        case CL_MEM_OBJECT_IMAGE1D_ARRAY: return {desc.image_width, desc.image_array_size, 1};
        case CL_MEM_OBJECT_IMAGE2D: return {desc.image_width, desc.image_height, 1};
        case CL_MEM_OBJECT_IMAGE2D_ARRAY:
            return {desc.image_width, desc.image_height, desc.image_array_size};
        case CL_MEM_OBJECT_IMAGE3D: return {desc.image_width, desc.image_height, desc.image_depth};
        default: return {desc.image_width, 1, 1};
    }
}

bool has_images_like(const DeviceObject &device, const cl_image_desc &desc) {
    const auto up_to = [&device](std::size_t value, cl_device_info limit) {
        return value <= device.info<std::size_t>(limit);
    };
    if (!has_images(device)) return false;
    if (is_image_array(desc.image_type) &&
        !up_to(desc.image_array_size, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE))
        return false;
    switch (desc.image_type) {
        case CL_MEM_OBJECT_IMAGE1D_BUFFER:
            return up_to(desc.image_width, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE);
        case CL_MEM_OBJECT_IMAGE1D:
        case CL_MEM_OBJECT_IMAGE1D_ARRAY:
            return up_to(desc.image_width, CL_DEVICE_IMAGE2D_MAX_WIDTH);
        case CL_MEM_OBJECT_IMAGE3D:
            return up_to(desc.image_width, CL_DEVICE_IMAGE3D_MAX_WIDTH) &&
                   up_to(desc.image_height, CL_DEVICE_IMAGE3D_MAX_HEIGHT) &&
                   up_to(desc.image_depth, CL_DEVICE_IMAGE3D_MAX_DEPTH);
        default:
            return up_to(desc.image_width, CL_DEVICE_IMAGE2D_MAX_WIDTH) &&
                   up_to(desc.image_height, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
    }
}

Pitches checked_pitches(cl_mem_object_type type, std::size_t width, std::size_t rows,
                        std::size_t row, std::size_t slice, cl_int code) {
    if (row != 0 && row < width)
        fail(code, "the row pitch is {}, but a row has {} bytes", row, width);
    if (row == 0) row = width;
    require(slice == 0 || has_slices(type), code,
            "the slice pitch is {}; expected 0, because images of this type have no slices", slice);
    const bool slices_are_rows = type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    const std::size_t least = slices_are_rows ? row : row * rows;
    if (slice != 0 && slice < least)
        fail(code, "the slice pitch is {}, but a slice has {} bytes", slice, least);
    if (slice == 0) slice = least;
    return {slices_are_rows ? slice : row, slice};
}

}  // namespace cldist::cluster
