/* Another driver's platform with the peculiarities of NVIDIA's driver (580). It replaces entries in
 * the other driver's function table, which all objects of that driver share.
 *
 * - Argument information is available only with -cl-kernel-arg-info. Then programs with the text
 *   "kernel void nothing()" fail to build or link.
 * - Every kernel reports a work-group size of 256, but larger groups run.
 * - The profiling times of a barrier are 0. A marker ends 2 s too early, before its start.
 * - The devices have their own memory. A write of at most 64 KiB from pageable memory reads that
 *   memory in the call. A read or write of at least 16 MiB of pageable memory blocks.
 * - A buffer must be migrated to a device before kernels use overlapping sub-buffers of it. If not,
 *   NVIDIA's driver loses bytes. This driver aborts.
 * - A kernel must not be released while its command waits for a user event. This driver aborts.
 * - If CLDIST_TEST_LAUNCHES_MEET is set, the first launch waits until another one is in the driver.
 *   After 20 s, this driver aborts.
 * - If CLDIST_TEST_LATE_ENDS is set, the devices are GPUs. A marker is then not complete while an
 *   older kernel of another queue runs. */
#define _GNU_SOURCE
#include "test_driver.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static cl_icd_dispatch native;

static int ends_are_late(void) { return getenv("CLDIST_TEST_LATE_ENDS") != NULL; }

static int asks(const char *options) {
    return options != NULL && strstr(options, "-cl-kernel-arg-info") != NULL;
}

static int was_asked(cl_program program) {
    cl_device_id devices[16] = {NULL};
    native.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, NULL);
    char options[4096] = "";
    native.clGetProgramBuildInfo(program, devices[0], CL_PROGRAM_BUILD_OPTIONS, sizeof options - 1,
                                 options, NULL);
    return asks(options);
}

static int has_kernel_without_arguments(cl_program program) {
    char source[16384] = "";
    native.clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof source - 1, source, NULL);
    return strstr(source, "kernel void nothing()") != NULL;
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info param, size_t size,
                                          void *value, size_t *size_ret) {
    const cl_int code = native.clGetDeviceInfo(device, param, size, value, size_ret);
    const cl_uint vendor = 0x10de;
    if (code == CL_SUCCESS && param == CL_DEVICE_VENDOR_ID && value != NULL)
        memcpy(value, &vendor, sizeof vendor);
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    if (code == CL_SUCCESS && param == CL_DEVICE_TYPE && value != NULL && ends_are_late())
        memcpy(value, &gpu, sizeof gpu);
    const cl_bool no = CL_FALSE;
    if (code == CL_SUCCESS && param == CL_DEVICE_HOST_UNIFIED_MEMORY && value != NULL)
        memcpy(value, &no, sizeof no);
    return code;
}

static cl_int CL_API_CALL get_event_profiling_info(cl_event event, cl_profiling_info param,
                                                   size_t size, void *value, size_t *size_ret) {
    const cl_int code = native.clGetEventProfilingInfo(event, param, size, value, size_ret);
    cl_command_type type = 0;
    native.clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    if (code == CL_SUCCESS && type == CL_COMMAND_BARRIER && value != NULL)
        memset(value, 0, sizeof(cl_ulong));
    if (code == CL_SUCCESS && type == CL_COMMAND_MARKER && param == CL_PROFILING_COMMAND_END &&
        value != NULL) {
        cl_ulong time = 0;
        memcpy(&time, value, sizeof time);
        time -= 2000000000; /* ns */
        memcpy(value, &time, sizeof time);
    }
    return code;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count,
                                        const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *notify)(cl_program, void *), void *data) {
    if (asks(options) && has_kernel_without_arguments(program)) return CL_BUILD_PROGRAM_FAILURE;
    return native.clBuildProgram(program, count, devices, options, notify, data);
}

static cl_program CL_API_CALL link_program(cl_context context, cl_uint count,
                                           const cl_device_id *devices, const char *options,
                                           cl_uint number, const cl_program *programs,
                                           void(CL_CALLBACK *notify)(cl_program, void *),
                                           void *data, cl_int *code) {
    for (cl_uint i = 0; i < number; ++i) {
        if (!was_asked(programs[i]) || !has_kernel_without_arguments(programs[i])) continue;
        if (code != NULL) *code = CL_LINK_PROGRAM_FAILURE;
        return NULL;
    }
    return native.clLinkProgram(context, count, devices, options, number, programs, notify, data,
                                code);
}

static cl_int CL_API_CALL get_kernel_arg_info(cl_kernel kernel, cl_uint index,
                                              cl_kernel_arg_info param, size_t size, void *value,
                                              size_t *size_ret) {
    cl_program program = NULL;
    native.clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL);
    if (!was_asked(program)) return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    return native.clGetKernelArgInfo(kernel, index, param, size, value, size_ret);
}

static cl_int CL_API_CALL get_kernel_work_group_info(cl_kernel kernel, cl_device_id device,
                                                     cl_kernel_work_group_info param, size_t size,
                                                     void *value, size_t *size_ret) {
    const cl_int code =
        native.clGetKernelWorkGroupInfo(kernel, device, param, size, value, size_ret);
    const size_t most = 256;
    if (code == CL_SUCCESS && param == CL_KERNEL_WORK_GROUP_SIZE && value != NULL)
        memcpy(value, &most, sizeof most);
    return code;
}

/* The last page-locked ranges: memory of CL_MEM_USE_HOST_PTR buffers, and mappings. */
static struct {
    const char *begin;
    size_t size;
} locked[4096];
static size_t locked_count;
static pthread_mutex_t locked_mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock_pages(const void *begin, size_t size) {
    pthread_mutex_lock(&locked_mutex);
    locked[locked_count % 4096].begin = begin;
    locked[locked_count++ % 4096].size = size;
    pthread_mutex_unlock(&locked_mutex);
}

static int is_pageable(const void *memory, size_t size) {
    const char *const begin = memory;
    int found = 0;
    pthread_mutex_lock(&locked_mutex);
    for (size_t i = 0; i < locked_count && i < 4096; ++i)
        if (begin >= locked[i].begin && begin + size <= locked[i].begin + locked[i].size) found = 1;
    pthread_mutex_unlock(&locked_mutex);
    return !found;
}

static cl_bool waits(cl_bool blocking, const void *memory, size_t size) {
    return blocking || (size >= 16 << 20 && is_pageable(memory, size)) ? CL_TRUE : CL_FALSE;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                        void *memory, cl_int *code) {
    const cl_mem buffer = native.clCreateBuffer(context, flags, size, memory, code);
    if (buffer != NULL && (flags & CL_MEM_USE_HOST_PTR) != 0) lock_pages(memory, size);
    return buffer;
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                    cl_map_flags flags, size_t offset, size_t size, cl_uint count,
                                    const cl_event *list, cl_event *event, cl_int *code) {
    void *const memory = native.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size,
                                                   count, list, event, code);
    if (memory != NULL) lock_pages(memory, size);
    return memory;
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                      size_t offset, size_t size, void *memory, cl_uint count,
                                      const cl_event *list, cl_event *event) {
    return native.clEnqueueReadBuffer(queue, buffer, waits(blocking, memory, size), offset, size,
                                      memory, count, list, event);
}

static void CL_CALLBACK free_copy(cl_event event, cl_int status, void *copy) {
    (void)event, (void)status;
    free(copy);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                       size_t offset, size_t size, const void *memory,
                                       cl_uint count, const cl_event *list, cl_event *event) {
    if (blocking || size > 65536 || !is_pageable(memory, size))
        return native.clEnqueueWriteBuffer(queue, buffer, waits(blocking, memory, size), offset,
                                           size, memory, count, list, event);
    void *const copy = malloc(size);
    memcpy(copy, memory, size);
    cl_event written = NULL;
    const cl_int code = native.clEnqueueWriteBuffer(queue, buffer, CL_FALSE, offset, size, copy,
                                                    count, list, &written);
    if (code != CL_SUCCESS) {
        free(copy);
        return code;
    }
    native.clSetEventCallback(written, CL_COMPLETE, free_copy, copy);
    if (event != NULL)
        *event = written;
    else
        native.clReleaseEvent(written);
    return code;
}

/* The sub-buffers, the buffers that were migrated, and the kernels' buffer arguments. */
#define MOST 4096
static struct part {
    cl_mem buffer, root;
    size_t begin, end;
} parts[MOST];
static cl_mem used[MOST];
static struct argument {
    cl_kernel kernel;
    cl_uint index;
    cl_mem buffer;
} arguments[MOST];
static size_t argument_count;
static pthread_mutex_t parts_mutex = PTHREAD_MUTEX_INITIALIZER;

static int is_used(cl_mem buffer) {
    for (size_t i = 0; i < MOST; ++i)
        if (used[i] == buffer) return 1;
    return 0;
}

static void CL_CALLBACK forget(cl_mem buffer, void *nothing) {
    (void)nothing;
    pthread_mutex_lock(&parts_mutex);
    for (size_t i = 0; i < MOST; ++i) {
        if (parts[i].buffer == buffer) parts[i].buffer = NULL;
        if (arguments[i].buffer == buffer) arguments[i].buffer = NULL;
        if (used[i] == buffer) used[i] = NULL;
    }
    pthread_mutex_unlock(&parts_mutex);
}

static cl_mem CL_API_CALL create_sub_buffer(cl_mem root, cl_mem_flags flags,
                                            cl_buffer_create_type type, const void *info,
                                            cl_int *code) {
    const cl_mem buffer = native.clCreateSubBuffer(root, flags, type, info, code);
    if (buffer == NULL) return NULL;
    cl_buffer_region region;
    memcpy(&region, info, sizeof region);
    const struct part part = {buffer, root, region.origin, region.origin + region.size};
    size_t place = 0;
    pthread_mutex_lock(&parts_mutex);
    while (place < MOST && parts[place].buffer != NULL) ++place;
    if (place < MOST) parts[place] = part;
    pthread_mutex_unlock(&parts_mutex);
    native.clSetMemObjectDestructorCallback(buffer, forget, NULL);
    return buffer;
}

static cl_int CL_API_CALL migrate(cl_command_queue queue, cl_uint number, const cl_mem *buffers,
                                  cl_mem_migration_flags flags, cl_uint count, const cl_event *list,
                                  cl_event *event) {
    for (cl_uint i = 0; i < number; ++i) {
        pthread_mutex_lock(&parts_mutex);
        const int is_new = !is_used(buffers[i]);
        size_t place = 0;
        while (place < MOST && used[place] != NULL) ++place;
        if (is_new && place < MOST) used[place] = buffers[i];
        pthread_mutex_unlock(&parts_mutex);
        if (is_new) native.clSetMemObjectDestructorCallback(buffers[i], forget, NULL);
    }
    return native.clEnqueueMigrateMemObjects(queue, number, buffers, flags, count, list, event);
}

static cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size,
                                         const void *value) {
    struct argument argument = {kernel, index, NULL};
    if (size == sizeof argument.buffer && value != NULL) memcpy(&argument.buffer, value, size);
    pthread_mutex_lock(&parts_mutex);
    size_t i = 0;
    while (i < MOST && (arguments[i].kernel != kernel || arguments[i].index != index)) ++i;
    arguments[i < MOST ? i : argument_count++ % MOST] = argument;
    pthread_mutex_unlock(&parts_mutex);
    return native.clSetKernelArg(kernel, index, size, value);
}

static const struct part *part_of(cl_mem buffer) {
    for (size_t i = 0; i < MOST; ++i)
        if (buffer != NULL && parts[i].buffer == buffer) return &parts[i];
    return NULL;
}

static int overlaps_another(const struct part *part) {
    for (size_t i = 0; i < MOST; ++i)
        if (parts[i].buffer != NULL && &parts[i] != part && parts[i].root == part->root &&
            parts[i].begin < part->end && part->begin < parts[i].end)
            return 1;
    return 0;
}

static int is_lost(cl_kernel kernel) {
    for (size_t i = 0; i < MOST; ++i) {
        const struct part *const part =
            arguments[i].kernel == kernel ? part_of(arguments[i].buffer) : NULL;
        if (part != NULL && !is_used(part->root) && overlaps_another(part)) return 1;
    }
    return 0;
}

/* Kernels whose commands wait for a user event; an entry is free once its event is set. */
static struct waiting {
    cl_kernel kernel;
    cl_event event;
} waiting[MOST];
static pthread_mutex_t waiting_mutex = PTHREAD_MUTEX_INITIALIZER;

static int is_open(cl_event event) {
    cl_command_type type = 0;
    cl_int status = CL_COMPLETE;
    native.clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    native.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return type == CL_COMMAND_USER && status > CL_COMPLETE;
}

static void note_waiting(cl_kernel kernel, cl_uint count, const cl_event *list) {
    pthread_mutex_lock(&waiting_mutex);
    for (cl_uint i = 0; i < count; ++i) {
        if (!is_open(list[i])) continue;
        size_t place = 0;
        while (place < MOST && waiting[place].event != NULL && is_open(waiting[place].event))
            ++place;
        if (place == MOST) break;
        if (waiting[place].event != NULL) native.clReleaseEvent(waiting[place].event);
        native.clRetainEvent(list[i]);
        waiting[place].kernel = kernel;
        waiting[place].event = list[i];
    }
    pthread_mutex_unlock(&waiting_mutex);
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel) {
    pthread_mutex_lock(&waiting_mutex);
    for (size_t i = 0; i < MOST; ++i) {
        if (waiting[i].kernel != kernel || waiting[i].event == NULL || !is_open(waiting[i].event))
            continue;
        fputs("a kernel is released while its command waits for a user event\n", stderr);
        abort();
    }
    pthread_mutex_unlock(&waiting_mutex);
    return native.clReleaseKernel(kernel);
}

/* The last kernels and markers, in the order of the calls. */
enum { most_noted = 256 };
static struct noted {
    cl_event event;
    cl_command_queue queue;
} noted[most_noted];
static size_t noted_count;
static pthread_mutex_t noted_mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(cl_command_queue queue, cl_event event) {
    native.clRetainEvent(event);
    pthread_mutex_lock(&noted_mutex);
    struct noted *const place = &noted[noted_count++ % most_noted];
    const cl_event before = place->event;
    place->event = event;
    place->queue = queue;
    pthread_mutex_unlock(&noted_mutex);
    if (before != NULL) native.clReleaseEvent(before);
}

static int runs_kernel(cl_event event) {
    cl_command_type type = 0;
    cl_int status = CL_COMPLETE;
    native.clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    native.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return type == CL_COMMAND_NDRANGE_KERNEL && status == CL_RUNNING;
}

static int is_late(cl_event marker) {
    int late = 0;
    pthread_mutex_lock(&noted_mutex);
    const size_t first = noted_count > most_noted ? noted_count - most_noted : 0;
    size_t at = first;
    while (at < noted_count && noted[at % most_noted].event != marker) ++at;
    for (size_t i = first; i < at && at < noted_count; ++i)
        if (noted[i % most_noted].queue != noted[at % most_noted].queue &&
            runs_kernel(noted[i % most_noted].event))
            late = 1;
    pthread_mutex_unlock(&noted_mutex);
    return late;
}

static cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_uint count,
                                         const cl_event *list, cl_event *event) {
    const cl_int code = native.clEnqueueMarkerWithWaitList(queue, count, list, event);
    if (code == CL_SUCCESS && event != NULL) note(queue, *event);
    return code;
}

static cl_int CL_API_CALL get_event_info(cl_event event, cl_event_info param, size_t size,
                                         void *value, size_t *size_ret) {
    const cl_int code = native.clGetEventInfo(event, param, size, value, size_ret);
    if (code != CL_SUCCESS || param != CL_EVENT_COMMAND_EXECUTION_STATUS || value == NULL)
        return code;
    const cl_int submitted = CL_SUBMITTED;
    cl_int status = 0;
    memcpy(&status, value, sizeof status);
    if (status == CL_COMPLETE && is_late(event)) memcpy(value, &submitted, sizeof submitted);
    return code;
}

static void meet(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t another = PTHREAD_COND_INITIALIZER;
    static int launches;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&mutex);
    ++launches;
    pthread_cond_broadcast(&another);
    while (launches < 2)
        if (pthread_cond_timedwait(&another, &mutex, &until) != 0) {
            fputs("no other thread launches a kernel while this one is in the driver\n", stderr);
            abort();
        }
    pthread_mutex_unlock(&mutex);
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel,
                                         cl_uint dimensions, const size_t *offset,
                                         const size_t *global, const size_t *local, cl_uint count,
                                         const cl_event *list, cl_event *event) {
    pthread_mutex_lock(&parts_mutex);
    if (is_lost(kernel)) {
        fputs(
            "a kernel uses one of several sub-buffers that overlap, and the buffer itself was not "
            "used before\n",
            stderr);
        abort();
    }
    pthread_mutex_unlock(&parts_mutex);
    note_waiting(kernel, count, list);
    if (getenv("CLDIST_TEST_LAUNCHES_MEET") != NULL) meet();
    cl_event ended = NULL;
    const cl_int code = native.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global,
                                                      local, count, list, &ended);
    if (code != CL_SUCCESS) return code;
    if (ends_are_late()) note(queue, ended);
    if (event != NULL)
        *event = ended;
    else
        native.clReleaseEvent(ended);
    return code;
}

static cl_platform_id begin(cl_platform_id other) {
    cl_icd_dispatch *const table = (cl_icd_dispatch *)(uintptr_t)other->dispatch;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)table / page * page;
    if (mprotect((void *)from, (uintptr_t)(table + 1) - from, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    native = *table;
    table->clGetDeviceInfo = get_device_info;
    if (ends_are_late()) {
        table->clGetEventInfo = get_event_info;
        table->clEnqueueMarkerWithWaitList = enqueue_marker;
    }
    table->clGetEventProfilingInfo = get_event_profiling_info;
    table->clCreateBuffer = create_buffer;
    table->clCreateSubBuffer = create_sub_buffer;
    table->clEnqueueMigrateMemObjects = migrate;
    table->clSetKernelArg = set_kernel_arg;
    table->clEnqueueNDRangeKernel = enqueue_kernel;
    table->clReleaseKernel = release_kernel;
    table->clEnqueueMapBuffer = map_buffer;
    table->clEnqueueReadBuffer = read_buffer;
    table->clEnqueueWriteBuffer = write_buffer;
    table->clBuildProgram = build_program;
    table->clLinkProgram = link_program;
    table->clGetKernelArgInfo = get_kernel_arg_info;
    table->clGetKernelWorkGroupInfo = get_kernel_work_group_info;
    return other;
}
