/// Formats, shapes and pitches of images. Pitches are in bytes, other sizes in elements. Dimensions
/// that an image's type lacks are 1 in a region and 0 in an origin. A layer of an array of 1D
/// images is a row, a layer of 2D images a slice.
#pragma once

#include <array>
#include <cstddef>

#include "cluster/objects/device.hpp"

namespace cldist::cluster {

/// Bytes of an element; 0 unless order and type form a valid format.
std::size_t element_size(const cl_image_format &format);

inline bool is_image_type(cl_mem_object_type type) {
    return type >= CL_MEM_OBJECT_IMAGE2D && type <= CL_MEM_OBJECT_IMAGE1D_BUFFER;
}
inline bool is_image_array(cl_mem_object_type type) {
    return type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
}
/// Whether it has a slice pitch: of an array of 1D images that is the distance of its rows.
inline bool has_slices(cl_mem_object_type type) {
    return type == CL_MEM_OBJECT_IMAGE3D || is_image_array(type);
}

/// What a call that makes an image reads of its descriptor, which depends on the image's type. All
/// else is 0, since the program need not set it.
cl_image_desc as_read(const cl_image_desc &desc);
/// Whether images of that type may be made of a memory object. For the others there must be none.
inline bool may_be_of_memory(cl_mem_object_type type) {
    return type == CL_MEM_OBJECT_IMAGE1D_BUFFER || type == CL_MEM_OBJECT_IMAGE2D;
}

/// For an image of that type.
std::array<std::size_t, 3> extents(const cl_image_desc &desc);

/// Whether a device has images of that type and size.
bool has_images_like(const DeviceObject &device, const cl_image_desc &desc);

inline bool has_images(const DeviceObject &device) {
    return device.info<cl_bool>(CL_DEVICE_IMAGE_SUPPORT) == CL_TRUE;
}

/// The layout of a part of an image in the program's memory.
struct Pitches {
    std::size_t row = 0;    ///< bytes from a row to the next; of an array of 1D images, too
    std::size_t slice = 0;  ///< bytes from a slice to the next, if the type has such

    /// As native calls want them. An array of 1D images has both, alike: platforms differ in which
    /// they look at.
    [[nodiscard]] std::size_t native_slice(cl_mem_object_type type) const {
        return type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? row : has_slices(type) ? slice : 0;
    }
};

/// The pitches of a region of `width` bytes and `rows` rows. `row` and `slice` are as in OpenCL's
/// calls, 0 for no gaps. Throws an Error with `code`.
Pitches checked_pitches(cl_mem_object_type type, std::size_t width, std::size_t rows,
                        std::size_t row, std::size_t slice, cl_int code);

}  // namespace cldist::cluster
