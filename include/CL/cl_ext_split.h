/** @file
 *  Access functions for kernels that are split over all devices of a cluster, after DistCL (Diop,
 *  Gurfinkel, Anderson, Enright Jerger, MASCOTS 2013).
 *
 *  With `cldist run --view aggregate`, a program sees one virtual device that represents the
 *  devices of all processes. A kernel that is enqueued on it is split at work-group boundaries into
 *  sub-ranges, and each sub-range runs on a different device. To do so, the platform must know
 *  which bytes of each buffer a sub-range reads and writes. Two access functions for each kernel
 *  (DistCL calls them meta-functions) provide this information:
 *
 *      int is_buffer_range_read_NAME(const void **params, const size_t *global,
 *                                    const size_t *subrange, const size_t *local,
 *                                    const size_t *subrange_offset, unsigned int param_num,
 *                                    size_t start, size_t *next_start);
 *      int is_buffer_range_written_NAME(same parameters);
 *
 *  NAME is the name of the kernel. The platform finds the functions as symbols of the program
 *  (linked with -rdynamic, or in a library that the program has loaded) or of the libraries in
 *  CLDIST_ACCESS_FUNCTIONS. #clSetKernelAccessFunctions sets them explicitly. docs/splitting.md has
 * examples.
 *
 *  The platform calls the functions for each buffer argument `param_num`, from byte 0 on. The
 *  function sets *next_start and returns whether the sub-range uses the bytes from `start` to
 *  *next_start (1) or not (0). *next_start must exceed `start`; the next call begins there. It may
 *  exceed the size of the buffer.
 *
 *  - params: the values of the kernel's arguments, in their order. They are NULL for buffers,
 *    images, samplers and local memory.
 *  - global: the global size of the whole launch. This and the next three have three elements.
 *  - subrange: the size of the sub-range, in work-items.
 *  - local: the work-group size of the launch. If the program sets none and the kernel cannot query
 *    it, this is only the unit in which the platform splits the launch.
 *  - subrange_offset: the first work-item of the sub-range, relative to the launch's global offset.
 *    It is 0 for the whole launch.
 *
 *  Report bytes as written only if the kernel always writes them; otherwise report them as read,
 *  too, or old values are lost. Two sub-ranges must not write the same byte. CLDIST_CHECK_ACCESS=1
 *  detects wrong results.
 *
 *  The functions must be pure, because every process calls its own copy: their results must depend
 *  only on their arguments. The thread that enqueues the kernel calls them while it holds a lock of
 *  the platform, so they must not call OpenCL. The platform caches their results for similar
 *  launches.
 *
 *  The header is valid C99 and C++. */
#ifndef CL_EXT_SPLIT_H
#define CL_EXT_SPLIT_H

#include <stddef.h>

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup cldist_split Access functions
 *  Functions that report which bytes of a buffer a sub-range of a kernel reads and writes.
 *  @{ */

/** An access function. */
typedef int (*cl_access_function)(const void **params, const size_t *global, const size_t *subrange,
                                  const size_t *local, const size_t *subrange_offset,
                                  unsigned int param_num, size_t start, size_t *next_start);

/** Sets the access functions of a kernel.
 *
 *  If both are NULL, the platform uses the functions that it finds for the kernel's name. The
 *  setting applies to later launches of this kernel object. On other platforms, and without the
 *  aggregate view, the call has no effect. On the cluster platform all processes must make the same
 *  calls, and an OpenCL callback must not make this call. Thread-safe. The function is in
 *  libcldist-collectives; on the cluster platform, clGetExtensionFunctionAddressForPlatform returns
 *  it, too.
 *
 *  @retval CL_SUCCESS The functions are set.
 *  @retval CL_INVALID_KERNEL `kernel` is not valid.
 *  @retval CL_INVALID_VALUE Exactly one of the functions is NULL. */
cl_int clSetKernelAccessFunctions(cl_kernel kernel, cl_access_function is_read,
                                  cl_access_function is_written);

/** The type of #clSetKernelAccessFunctions, for clGetExtensionFunctionAddressForPlatform. */
typedef cl_int(CL_API_CALL *clSetKernelAccessFunctions_fn)(cl_kernel kernel,
                                                           cl_access_function is_read,
                                                           cl_access_function is_written);

/** Returns whether the byte `start` is in a region of an array, and sets *next_start to the next
 *  byte for which this changes.
 *
 *  A helper for access functions, from DistCL. The array has `dimensions` dimensions (1 to 3), and
 *  total_size[i] elements of `element_size` bytes in dimension i. Elements along dimension 0 are
 *  adjacent in memory. The region begins at required_start[i] and has required_size[i] elements.
 *  Parts of the region outside the array are ignored, so `required_start` may be negative. At the
 *  end of the array, *next_start is its size in bytes.
 *
 *  @retval 1 The bytes from `start` to *next_start are in the region.
 *  @retval 0 They are not in the region. */
static inline int require_region(unsigned int dimensions, const size_t *total_size,
                                 const ptrdiff_t *required_start, const size_t *required_size,
                                 size_t element_size, size_t start, size_t *next_start) {
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
    if (first[0] >= last[0] || first[1] >= last[1] || first[2] >= last[2] ||
        start >= row * total[1] * total[2]) {
        *next_start = row * total[1] * total[2] > start ? row * total[1] * total[2] : (size_t)-1;
        return 0;
    }
    element = start / element_size;
    at[0] = element % total[0];
    at[1] = element / total[0] % total[1];
    at[2] = element / total[0] / total[1];
    inside = at[0] >= first[0] && at[0] < last[0] && at[1] >= first[1] && at[1] < last[1] &&
             at[2] >= first[2] && at[2] < last[2];
    if (inside) {
        if (first[0] != 0 || last[0] != total[0])
            element += last[0] - at[0];
        else if (first[1] != 0 || last[1] != total[1])
            element += (last[1] - at[1]) * total[0] - at[0];
        else
            element += (last[2] - at[2]) * total[0] * total[1] - at[1] * total[0] - at[0];
    } else {
        /* Go to the region's next element after `at`. */
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
        element = at[2] >= last[2] ? total[0] * total[1] * total[2]
                                   : (at[2] * total[1] + at[1]) * total[0] + at[0];
    }
    *next_start = element * element_size;
    return inside ? 1 : 0;
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif
