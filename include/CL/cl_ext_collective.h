/// Collective operations on buffers of several devices of one context, after SnuCL (Kim et al., ICS 2012).
///
/// They work on any OpenCL platform that has several devices in one context, and on the cluster platform of `cldist run`,
/// where the devices are those of all processes. No MPI is needed. Link with -lcldist-collectives. Usable from C99 and C++.
///
/// Common to all of them:
///
/// Devices. `cmd_queue_list[i]` is a queue of the device that has destination i; queues may be in-order or out-of-order, and
/// several may be of one device. All are of one context. The n buffers of a list may be one buffer with n offsets.
///
/// Order. The command belongs to the first queue (or the only one) and has its event there. To every in-order queue of the list
/// it is one of its commands: it starts behind what was enqueued before, and what is enqueued afterwards starts when all of it
/// is done (on the cluster platform, what uses its buffers). On out-of-order queues only the wait list and the event order it.
///
/// Sizes and offsets are bytes and may pass 4 GiB. `bytes_to_copy` is what MPI calls a count: of a broadcast, reduction or scan
/// all that one process would give; of a scatter, gather, all-gather, all-to-all or reduce-scatter each of the n blocks.
/// A list of offsets that is NULL stands for zeros. Nothing is done, but in order, if `bytes_to_copy` is 0.
///
/// In place. Destination i may be what source i is (as in MPI: of an all-gather its own block i of the destination, of a
/// reduce-scatter the beginning of source i, of a broadcast or reduction the whole). Ranges may overlap in no other way.
///
/// Reductions combine element by element, on the devices, in an order that depends on n, the size, and which devices share a
/// process: integers exactly, floating-point numbers with the same bits on every run with the same devices. Elements are SnuCL's
/// channel types and three of our own. `…WithOp` take the operator; without it, it is the sum. Sums and products of integers wrap
/// around.
///
/// Threads: thread-safe, but commands that share in-order queues need one order. On the cluster platform all processes make
/// the same calls, as ever.
///
/// Errors, in the order of the checks (nothing is enqueued if there is one):
/// CL_INVALID_VALUE            if n is 0, or a list that must not be NULL is;
/// CL_INVALID_COMMAND_QUEUE    if a queue is not valid;
/// CL_INVALID_CONTEXT          if queues, buffers and events are not of one context;
/// CL_INVALID_MEM_OBJECT       if a buffer is not valid;
/// CL_INVALID_EVENT_WAIT_LIST  as for clEnqueueCopyBuffer;
/// CL_INVALID_VALUE            if a range passes the end of its buffer, or, of a reduction, offset and size are not multiples of
///                             the element's size, or the datatype or operator is none of these;
/// CL_INVALID_OPERATION        if an operator is not one for the datatype (bits of floating-point numbers), or a device has no
///                             double precision;
/// CL_MEM_COPY_OVERLAP         if ranges overlap but not as in place;
/// CL_MISALIGNED_SUB_BUFFER_OFFSET, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY as for
/// clEnqueueCopyBuffer and clEnqueueNDRangeKernel, where what was enqueued already is left to end.
#ifndef CL_EXT_COLLECTIVE_H
#define CL_EXT_COLLECTIVE_H

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Datatypes of elements that OpenCL's channel types have not. The channel types are CL_SIGNED_INT8, CL_SIGNED_INT16,
 * CL_SIGNED_INT32, CL_UNSIGNED_INT8, CL_UNSIGNED_INT16, CL_UNSIGNED_INT32, CL_HALF_FLOAT (combined as float, rounded to half) and
 * CL_FLOAT. */
#define CL_DOUBLE_DIST 0x10DF /**< SnuCL's CL_DOUBLE */
#define CL_SIGNED_INT64_DIST 0x13B0
#define CL_UNSIGNED_INT64_DIST 0x13B1
#ifndef CL_DOUBLE
#define CL_DOUBLE CL_DOUBLE_DIST
#endif

/* Operators, as MPI's. Logical ones take elements that are not 0 for true, and give 1 or 0. Those of bits and the logical ones
 * are for integers. */
typedef cl_uint cl_reduction_op;
#define CL_REDUCTION_SUM 0x13C0
#define CL_REDUCTION_PROD 0x13C1
#define CL_REDUCTION_MIN 0x13C2
#define CL_REDUCTION_MAX 0x13C3
#define CL_REDUCTION_BAND 0x13C4
#define CL_REDUCTION_BOR 0x13C5
#define CL_REDUCTION_BXOR 0x13C6
#define CL_REDUCTION_LAND 0x13C7
#define CL_REDUCTION_LOR 0x13C8
#define CL_REDUCTION_LXOR 0x13C9

/* For clGetDeviceInfo, on the cluster platform of two or more processes: the rank of the process that has the device, and a number
 * of that process's host; each a cl_uint. CL_INVALID_VALUE elsewhere: there no device is another process's. */
#define CL_DEVICE_RANK_DIST 0x13D0
#define CL_DEVICE_HOST_DIST 0x13D1

/** Copies the range of `src_buffer` to each destination. */
cl_int clEnqueueBroadcastBuffer(const cl_command_queue *cmd_queue_list, cl_mem src_buffer, cl_uint num_dst_buffers,
                                const cl_mem *dst_buffer_list, size_t src_offset, const size_t *dst_offset_list,
                                size_t bytes_to_copy, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                cl_event *event);

/** Copies block i of the n of `src_buffer` to destination i. */
cl_int clEnqueueScatterBuffer(const cl_command_queue *cmd_queue_list, cl_mem src_buffer, cl_uint num_dst_buffers,
                              const cl_mem *dst_buffer_list, size_t src_offset, const size_t *dst_offset_list,
                              size_t bytes_to_copy, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                              cl_event *event);

/** Copies source i to block i of the n of `dst_buffer`. */
cl_int clEnqueueGatherBuffer(cl_command_queue cmd_queue, cl_uint num_src_buffers, const cl_mem *src_buffer_list,
                             cl_mem dst_buffer, const size_t *src_offset_list, size_t dst_offset, size_t bytes_to_copy,
                             cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Copies source i to block i of the n of each destination. */
cl_int clEnqueueAllGatherBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list, size_t bytes_to_copy,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Copies block j of source i to block i of destination j. */
cl_int clEnqueueAlltoAllBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                               const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                               const size_t *src_offset_list, const size_t *dst_offset_list, size_t bytes_to_copy,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** The same with blocks of their own sizes and places. The lists have n * n entries: that of [i * n + j] is block j of source i, and
 *  where it lies in source i, or comes to lie in destination j. None may be NULL. */
cl_int clEnqueueAlltoAllVBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list,
                                const size_t *bytes_to_copy_list, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event);

/** Combines the sources and leaves the result in `dst_buffer`. */
cl_int clEnqueueReduceBuffer(cl_command_queue cmd_queue, cl_uint num_src_buffers, const cl_mem *src_buffer_list,
                             cl_mem dst_buffer, const size_t *src_offset_list, size_t dst_offset, size_t bytes_to_copy,
                             cl_channel_type datatype, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                             cl_event *event);

cl_int clEnqueueReduceBufferWithOp(cl_command_queue cmd_queue, cl_uint num_src_buffers, const cl_mem *src_buffer_list,
                                   cl_mem dst_buffer, const size_t *src_offset_list, size_t dst_offset,
                                   size_t bytes_to_copy, cl_channel_type datatype, cl_reduction_op op,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Combines the sources and leaves the result in each destination. */
cl_int clEnqueueAllReduceBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list, size_t bytes_to_copy,
                                cl_channel_type datatype, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event);

cl_int clEnqueueAllReduceBufferWithOp(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                      const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                      const size_t *src_offset_list, const size_t *dst_offset_list,
                                      size_t bytes_to_copy, cl_channel_type datatype, cl_reduction_op op,
                                      cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                      cl_event *event);

/** Combines the sources, of n blocks each, and leaves block i of the result in destination i. */
cl_int clEnqueueReduceScatterBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                    const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                    const size_t *src_offset_list, const size_t *dst_offset_list, size_t bytes_to_copy,
                                    cl_channel_type datatype, cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

cl_int clEnqueueReduceScatterBufferWithOp(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                          const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                          const size_t *src_offset_list, const size_t *dst_offset_list,
                                          size_t bytes_to_copy, cl_channel_type datatype, cl_reduction_op op,
                                          cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                          cl_event *event);

/** Combines sources 0 to i and leaves the result in destination i. */
cl_int clEnqueueScanBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers, const cl_mem *src_buffer_list,
                           const cl_mem *dst_buffer_list, const size_t *src_offset_list, const size_t *dst_offset_list,
                           size_t bytes_to_copy, cl_channel_type datatype, cl_uint num_events_in_wait_list,
                           const cl_event *event_wait_list, cl_event *event);

cl_int clEnqueueScanBufferWithOp(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                 const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                 const size_t *src_offset_list, const size_t *dst_offset_list, size_t bytes_to_copy,
                                 cl_channel_type datatype, cl_reduction_op op, cl_uint num_events_in_wait_list,
                                 const cl_event *event_wait_list, cl_event *event);

/* With a kernel of the program's own as operator, for elements of `element_size` bytes, any number:
 *
 *     kernel void combine(global T *a, ulong first_a, const global T *b, ulong first_b, ulong count)
 *
 * sets a[first_a + k] to the combination of a[first_a + k] and b[first_b + k], in that order, for all k < count. It is launched
 * with one dimension and any global size, and must go through all k in steps of get_global_size(0). It must be associative; it
 * need not be commutative. Its arguments are overwritten; no other thread may use it during the call. Errors as above, and
 * CL_INVALID_KERNEL if it is not valid or takes other than five arguments; CL_INVALID_VALUE if `element_size` is 0. */
cl_int clEnqueueReduceBufferWithKernel(cl_command_queue cmd_queue, cl_uint num_src_buffers,
                                       const cl_mem *src_buffer_list, cl_mem dst_buffer, const size_t *src_offset_list,
                                       size_t dst_offset, size_t bytes_to_copy, size_t element_size, cl_kernel combine,
                                       cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                       cl_event *event);

cl_int clEnqueueAllReduceBufferWithKernel(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                          const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                          const size_t *src_offset_list, const size_t *dst_offset_list,
                                          size_t bytes_to_copy, size_t element_size, cl_kernel combine,
                                          cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                          cl_event *event);

cl_int clEnqueueReduceScatterBufferWithKernel(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                              const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                              const size_t *src_offset_list, const size_t *dst_offset_list,
                                              size_t bytes_to_copy, size_t element_size, cl_kernel combine,
                                              cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                              cl_event *event);

cl_int clEnqueueScanBufferWithKernel(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                     const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                     const size_t *src_offset_list, const size_t *dst_offset_list, size_t bytes_to_copy,
                                     size_t element_size, cl_kernel combine, cl_uint num_events_in_wait_list,
                                     const cl_event *event_wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif

#endif
