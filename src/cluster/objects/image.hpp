/// Formats, shapes and pitches of images. Pitches are in bytes, other sizes in elements. Dimensions
/// that an image's type lacks are 1 in a region and 0 in an origin. A layer of an array of 1D
/// images is a row; a layer of an array of 2D images is a slice.
#pragma once

#include <array>
#include <cstddef>

#include "cluster/objects/device.hpp"

namespace cldist::cluster {

/// Bytes of an element; 0 if channel order and channel type cannot be combined.
std::size_t element_size(const cl_image_format &format);

inline bool is_image_type(cl_mem_object_type type) {
    return type >= CL_MEM_OBJECT_IMAGE2D && type <= CL_MEM_OBJECT_IMAGE1D_BUFFER;
}
inline bool is_image_array(cl_mem_object_type type) {
    return type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
}
/// Whether images of this type have a slice pitch. In an array of 1D images, a slice is a row.
inline bool has_slices(cl_mem_object_type type) {
    return type == CL_MEM_OBJECT_IMAGE3D || is_image_array(type);
}

/// The fields of a descriptor that are valid for its image type. All other fields are 0, because
/// the program need not set them.
cl_image_desc as_read(const cl_image_desc &desc);
/// Whether images of this type can be created from a memory object. For other types, the
/// descriptor's memory object must be NULL.
inline bool may_be_of_memory(cl_mem_object_type type) {
    return type == CL_MEM_OBJECT_IMAGE1D_BUFFER || type == CL_MEM_OBJECT_IMAGE2D;
}

/// The size of the whole image, as a region.
std::array<std::size_t, 3> extents(const cl_image_desc &desc);

/// Whether the device supports images of this type and size.
bool has_images_like(const DeviceObject &device, const cl_image_desc &desc);

inline bool has_images(const DeviceObject &device) {
    return device.info<cl_bool>(CL_DEVICE_IMAGE_SUPPORT) == CL_TRUE;
}

/// The layout of a part of an image in the program's memory.
struct Pitches {
    std::size_t row = 0;    ///< bytes from one row to the next, also in an array of 1D images
    std::size_t slice = 0;  ///< bytes from one slice to the next, if has_slices()

    /// The slice pitch for native calls. For an array of 1D images, it equals the row pitch,
    /// because platforms differ in which of the two they use.
    [[nodiscard]] std::size_t native_slice(cl_mem_object_type type) const {
        return type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? row : has_slices(type) ? slice : 0;
    }
};

/// The pitches of a region of `width` bytes and `rows` rows. `row` and `slice` are those of the
/// OpenCL call, 0 for no gaps. Throws an Error with `code` if they are invalid.
Pitches checked_pitches(cl_mem_object_type type, std::size_t width, std::size_t rows,
                        std::size_t row, std::size_t slice, cl_int code);

}  // namespace cldist::cluster
