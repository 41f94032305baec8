// A preloaded library. It adds 1 to the first float of all data that a program reads from buffers,
// and to the second float, which contains the exponent if the data has type double.

#define _GNU_SOURCE
#include <dlfcn.h>

#include <CL/cl.h>

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *memory, cl_uint count, const cl_event *events,
                           cl_event *event) {
    cl_int (*read)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                   const cl_event *, cl_event *);
    *(void **)&read = dlsym(RTLD_NEXT, "clEnqueueReadBuffer");
    (void)blocking;
    const cl_int status = read(queue, buffer, CL_TRUE, offset, size, memory, count, events, event);
    float *const floats = memory;
    if (status == CL_SUCCESS) floats[0] += 1;
    if (status == CL_SUCCESS && size >= sizeof(double)) floats[1] += 1;
    return status;
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                         const cl_event *events, cl_event *event, cl_int *status) {
    void *(*map)(cl_command_queue, cl_mem, cl_bool, cl_map_flags, size_t, size_t, cl_uint,
                 const cl_event *, cl_event *, cl_int *);
    *(void **)&map = dlsym(RTLD_NEXT, "clEnqueueMapBuffer");
    (void)blocking;
    float *memory = map(queue, buffer, CL_TRUE, flags, offset, size, count, events, event, status);
    if (memory && flags & CL_MAP_READ) *memory += 1;
    return memory;
}
