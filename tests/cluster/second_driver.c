/* A second platform with the devices of another driver. In a process with both platforms, the
 * platforms have separate memories, and data between them passes through host memory. */
#include "test_driver.h"

static cl_platform_id other_platform;

static cl_int CL_API_CALL get_device_ids(cl_platform_id platform, cl_device_type type,
                                         cl_uint count, cl_device_id *devices, cl_uint *number) {
    (void)platform;
    return other_platform->dispatch->clGetDeviceIDs(other_platform, type, count, devices, number);
}

static cl_platform_id begin(cl_platform_id other) {
    static struct _cl_platform_id platform;
    static cl_icd_dispatch table;
    other_platform = other;
    table.clGetDeviceIDs = get_device_ids;
    platform.dispatch = &table;
    return &platform;
}
