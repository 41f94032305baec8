/* A library of access functions for CLDIST_ACCESS_FUNCTIONS (splitting.cpp). */
#include <CL/cl_ext_split.h>

static int items(const size_t *subrange, const size_t *subrange_offset, size_t start,
                 size_t *next_start) {
    const size_t total = (size_t)1 << 40U;
    const ptrdiff_t begin = (ptrdiff_t)subrange_offset[0];
    return require_region(1, &total, &begin, subrange, sizeof(cl_int), start, next_start);
}

int is_buffer_range_read_in_a_library(const void **params, const size_t *global,
                                      const size_t *subrange, const size_t *local,
                                      const size_t *subrange_offset, unsigned int param_num,
                                      size_t start, size_t *next_start) {
    (void)params, (void)global, (void)local, (void)param_num;
    return items(subrange, subrange_offset, start, next_start);
}

int is_buffer_range_written_in_a_library(const void **params, const size_t *global,
                                         const size_t *subrange, const size_t *local,
                                         const size_t *subrange_offset, unsigned int param_num,
                                         size_t start, size_t *next_start) {
    (void)params, (void)global, (void)local, (void)param_num;
    return items(subrange, subrange_offset, start, next_start);
}
