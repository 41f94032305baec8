/// Kernels that are split over all devices of a cluster: what their parts read and write, after DistCL (Diop, Gurfinkel, Anderson,
/// Enright Jerger, MASCOTS 2013).
///
/// With `cldist run --view aggregate` a program sees one device in front of those of all processes. A kernel enqueued on it is cut
/// into parts, never through a work-group, and each part runs on another device. The platform has to know which bytes of each
/// buffer a part reads and writes. Two functions for each kernel tell it, the kernel's meta-functions:
///
///     int is_buffer_range_read_NAME   (const void **params, const size_t *global, const size_t *subrange, const size_t *local,
///     int is_buffer_range_written_NAME  const size_t *subrange_offset, unsigned int param_num, size_t start, size_t *next_start);
///
/// NAME is the kernel's. They are found as symbols of the program (linked with -rdynamic, or in a library that it has loaded), or of
/// the libraries that CLDIST_META names; or they are set by clSetKernelAccessFunctions. docs/splitting.md has examples.
///
/// They are asked for one buffer argument, `param_num`, after the other, from byte 0 on: whether the bytes from `start` to
/// *next_start, which the function sets, are used (1) or not (0) by the sub-range. *next_start is above `start`; the next question
/// begins there. It may be above the buffer's end: what is there counts for nothing.
///
///     params           the values of the kernel's arguments, in their order; NULL for buffers, images, samplers and local memory
///     global           the global size of the whole launch; like the next three, of three elements
///     subrange         the size of the sub-range, in work-items
///     local            the size of a work-group, if the kernel can ask for it
///     subrange_offset  the sub-range's first work-item, counted from the launch's global offset: 0 for the whole launch
///
/// What is said to be written is taken for written by that part alone: if a part may leave some of it alone, it has to be said to
/// be read as well. No two parts may write the same byte. CLDIST_CHECK_ACCESS=1 finds what is said wrongly.
///
/// The functions must be pure: what they say depends on their arguments alone, since every process asks its own. They are called by the
/// thread that enqueues, under a lock of the platform: they must not call OpenCL. What they said is kept for launches that are alike.
///
/// Usable from C99 and C++.
#ifndef CL_EXT_SPLIT_H
#define CL_EXT_SPLIT_H

#include <stddef.h>

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A meta-function. */
typedef int (*cl_access_function)(const void **params, const size_t *global, const size_t *subrange,
                                  const size_t *local, const size_t *subrange_offset, unsigned int param_num,
                                  size_t start, size_t *next_start);

/** Sets a kernel's meta-functions; both NULL: those that are found for its name, as before. Holds for later launches of this kernel
 *  object. On other platforms, and without the aggregate view, this says nothing.
 *
 *  On the cluster platform all processes make the same calls. Found in libcldist-collectives, or on the cluster platform by
 *  clGetExtensionFunctionAddressForPlatform.
 *
 *  CL_INVALID_KERNEL  if `kernel` is not valid;
 *  CL_INVALID_VALUE   if one of the functions is NULL and the other is not. */
cl_int clSetKernelAccessFunctions(cl_kernel kernel, cl_access_function is_read, cl_access_function is_written);

/** For clGetExtensionFunctionAddressForPlatform. */
typedef cl_int(CL_API_CALL *clSetKernelAccessFunctions_fn)(cl_kernel kernel, cl_access_function is_read,
                                                           cl_access_function is_written);

/** For meta-functions, DistCL's helper: whether the byte `start` is in a region of an array, and up to where the next bytes are alike.
 *
 *  The array has `dimensions` dimensions (1 to 3), `total_size[i]` elements in dimension i, of `element_size` bytes; dimension 0 is the one
 *  whose elements stand side by side. The region begins at `required_start[i]` and has `required_size[i]` elements; what of it is
 *  outside of the array is not looked at, so `required_start` may be negative. Where the array's end is reached *next_start is its
 *  size in bytes. */
static inline int require_region(unsigned int dimensions, const size_t *total_size, const ptrdiff_t *required_start,
                                 const size_t *required_size, size_t element_size, size_t start, size_t *next_start) {
    size_t first[3] = {0, 0, 0}, last[3] = {1, 1, 1}, total[3] = {1, 1, 1};
    size_t row, element, at[3], inside;
    unsigned int i;
    for (i = 0; i < dimensions && i < 3; ++i) {
        const ptrdiff_t begin = required_start[i];
        const ptrdiff_t end = begin + (ptrdiff_t)required_size[i];
        total[i] = total_size[i];
        first[i] = begin > 0 ? (size_t)begin : 0;
        last[i] = end > 0 ? (size_t)end : 0;
        if (last[i] > total[i]) last[i] = total[i];
    }
    row = total[0] * element_size;
    if (first[0] >= last[0] || first[1] >= last[1] || first[2] >= last[2] || start >= row * total[1] * total[2]) {
        *next_start = row * total[1] * total[2] > start ? row * total[1] * total[2] : (size_t)-1;
        return 0;
    }
    element = start / element_size;
    at[0] = element % total[0];
    at[1] = element / total[0] % total[1];
    at[2] = element / total[0] / total[1];
    inside = at[0] >= first[0] && at[0] < last[0] && at[1] >= first[1] && at[1] < last[1] && at[2] >= first[2] &&
             at[2] < last[2];
    if (inside) {
        if (first[0] != 0 || last[0] != total[0])
            element += last[0] - at[0];
        else if (first[1] != 0 || last[1] != total[1])
            element += (last[1] - at[1]) * total[0] - at[0];
        else
            element += (last[2] - at[2]) * total[0] * total[1] - at[1] * total[0] - at[0];
    } else {
        /* To the region's next element behind `at`. */
        if (at[0] >= last[0]) {
            at[0] = first[0];
            ++at[1];
        } else if (at[1] >= first[1] && at[1] < last[1] && at[2] >= first[2] && at[2] < last[2]) {
            at[0] = first[0];
        }
        if (at[1] < first[1]) {
            at[1] = first[1];
            at[0] = first[0];
        }
        if (at[1] >= last[1]) {
            at[1] = first[1];
            at[0] = first[0];
            ++at[2];
        }
        if (at[2] < first[2]) {
            at[2] = first[2];
            at[1] = first[1];
            at[0] = first[0];
        }
        if (at[0] < first[0]) at[0] = first[0];
        element = at[2] >= last[2] ? total[0] * total[1] * total[2] : (at[2] * total[1] + at[1]) * total[0] + at[0];
    }
    *next_start = element * element_size;
    return inside ? 1 : 0;
}

#ifdef __cplusplus
}
#endif

#endif
