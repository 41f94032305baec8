/** @file
 *  Collective operations on buffers of several devices of one context, after SnuCL (Kim et al., ICS
 *  2012).
 *
 *  The operations work on any OpenCL platform that has several devices in one context. They also
 *  work on the cluster platform of `cldist run`, which provides the devices of all processes. MPI
 *  is not needed. Link with -lcldist-collectives. The header is valid C99 and C++. */
#ifndef CL_EXT_COLLECTIVE_H
#define CL_EXT_COLLECTIVE_H

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup cldist_device_collectives Collectives of devices
 *  Collective operations on buffers of several devices of one context.
 *
 *  @par Devices
 *  `cmd_queue_list[i]` is a queue of the device for destination i. Queues may be in-order or
 *  out-of-order, and several queues may belong to one device. All queues must have the same
 *  context. The n buffers of a list may be one buffer with n offsets. n is the argument
 *  num_buffers, num_src_buffers or num_dst_buffers.
 *
 *  @par Order
 *  The command and its event belong to the first queue (or the only one). On every in-order queue
 *  of the list, the command is ordered like a command of that queue: it starts after earlier
 *  commands, and later commands start when it is complete. On the cluster platform this applies
 *  only to later commands that use its buffers. On out-of-order queues, only the wait list and the
 *  event order the command.
 *
 *  @par Sizes and offsets
 *  Sizes and offsets are in bytes and may exceed 4 GiB. `bytes_to_copy` corresponds to the count of
 *  MPI: for a broadcast, reduction or scan, the size of one source; for a scatter, gather,
 *  all-gather, all-to-all or reduce-scatter, the size of one of the n blocks. If a list of offsets
 *  is NULL, the offsets are 0. If `bytes_to_copy` is 0, the command transfers no data and keeps its
 *  place in the order.
 *
 *  @par Device memory
 *  Between two NVIDIA GPUs, outside the cluster platform, bytes pass through 64 MiB of memory of
 * the target. A GPU has such memory for each other GPU that writes to it. The library keeps it for
 * the last four contexts, and it keeps these contexts. `CLDIST_PATH=shared` avoids it.
 *
 *  @par In-place operation
 *  Destination i may be the same range as source i, as in MPI. For an all-gather, source i may be
 *  block i of destination i. For a reduce-scatter, destination i may be the beginning of source i.
 *  Ranges must not overlap in any other way. #clEnqueueAlltoAllVBuffer has no in-place operation.
 *
 *  @par Reductions
 *  Reductions combine elements on the devices. The order of combination depends on n, the size, and
 *  which devices share a process. Integer results are exact. Floating-point results have the same
 *  bits in every run with the same devices. The type of the elements is an OpenCL channel type or
 *  one of the three types below. The functions `…WithOp` take an operator; the functions without
 *  this suffix use the sum. Sums and products of integers wrap around. The library keeps the
 *  programs of these operators for the last four contexts, and it keeps the contexts.
 *
 *  @par Threads and callbacks
 *  Thread-safe. If several threads enqueue such commands on the same in-order queues, they must
 *  agree on an order. On the cluster platform all processes must make the same calls in the same
 *  order. None of the calls blocks, and an OpenCL callback may make them on any platform except the
 *  cluster platform.
 *
 *  @par Errors
 *  Checked in this order. If the call returns one of the first nine, nothing is enqueued.
 *  @retval CL_INVALID_VALUE n is 0, or a required list is NULL.
 *  @retval CL_INVALID_COMMAND_QUEUE A queue is not valid.
 *  @retval CL_INVALID_MEM_OBJECT A buffer is not valid.
 *  @retval CL_INVALID_CONTEXT Queues, buffers, events and a user-provided kernel do not all have
 *          the same context.
 *  @retval CL_INVALID_EVENT_WAIT_LIST as for clEnqueueCopyBuffer.
 *  @retval CL_INVALID_VALUE A range exceeds its buffer. For a reduction: an offset or the size is
 *          not a multiple of the element size, or the datatype or the operator is unknown.
 *  @retval CL_INVALID_OPERATION The datatype does not support the operator (bitwise operators of
 *          floating-point numbers), or a device lacks double precision.
 *  @retval CL_BUILD_PROGRAM_FAILURE The kernels of an operator can't be built. A device without a
 *          compiler returns CL_COMPILER_NOT_AVAILABLE.
 *  @retval CL_MEM_COPY_OVERLAP Ranges overlap in a way that is not an in-place operation.
 *  @retval CL_MISALIGNED_SUB_BUFFER_OFFSET as for clEnqueueCopyBuffer and clEnqueueNDRangeKernel.
 *          With this and the following codes, commands that were already enqueued run to
 *          completion.
 *  @retval CL_MEM_OBJECT_ALLOCATION_FAILURE as for clEnqueueCopyBuffer and clEnqueueNDRangeKernel.
 *  @retval CL_OUT_OF_RESOURCES as for clEnqueueCopyBuffer and clEnqueueNDRangeKernel.
 *  @retval CL_OUT_OF_HOST_MEMORY as for clEnqueueCopyBuffer and clEnqueueNDRangeKernel.
 *  @{ */

/** @name Datatypes
 *  Datatypes for which OpenCL defines no channel type. The supported channel types are
 *  CL_SIGNED_INT8, CL_SIGNED_INT16, CL_SIGNED_INT32, CL_UNSIGNED_INT8, CL_UNSIGNED_INT16,
 *  CL_UNSIGNED_INT32, CL_HALF_FLOAT (combined as float and rounded to half) and CL_FLOAT.
 *
 *  All values of this header are from 0x0C1D0000 to 0x0C1D00FF. The Khronos registry (cl.xml)
 *  allocates values up to 0x4FFF, reserves 0x10000 to 0x10FFF for experiments, and lists 0x10000000
 *  to 0x100000FF as Apple's. The values of this header are in none of these ranges. SnuCL used
 *  0x10DF for double precision, which Khronos has since assigned to CL_UNORM_INT24.
 *  @{ */
#define CL_DOUBLE_DIST 0x0C1D0000         /**< double */
#define CL_SIGNED_INT64_DIST 0x0C1D0001   /**< cl_long */
#define CL_UNSIGNED_INT64_DIST 0x0C1D0002 /**< cl_ulong */
/** @} */

/** An operator of a reduction. */
typedef cl_uint cl_reduction_op;

/** @name Operators
 *  The operators are those of MPI. Logical operators treat elements other than 0 as true and
 *  produce 1 or 0. Bitwise and logical operators accept integers only.
 *  @{ */
#define CL_REDUCTION_SUM 0x0C1D0010  /**< Sum. */
#define CL_REDUCTION_PROD 0x0C1D0011 /**< Product. */
#define CL_REDUCTION_MIN 0x0C1D0012  /**< Minimum. */
#define CL_REDUCTION_MAX 0x0C1D0013  /**< Maximum. */
#define CL_REDUCTION_BAND 0x0C1D0014 /**< Bitwise and. */
#define CL_REDUCTION_BOR 0x0C1D0015  /**< Bitwise or. */
#define CL_REDUCTION_BXOR 0x0C1D0016 /**< Bitwise exclusive or. */
#define CL_REDUCTION_LAND 0x0C1D0017 /**< Logical and. */
#define CL_REDUCTION_LOR 0x0C1D0018  /**< Logical or. */
#define CL_REDUCTION_LXOR 0x0C1D0019 /**< Logical exclusive or. */
/** @} */

/** @name Queries of clGetDeviceInfo
 *  On the cluster platform with two or more processes, clGetDeviceInfo accepts these names. On
 *  other platforms it returns CL_INVALID_VALUE.
 *  @{ */
/** cl_uint: the rank of the process that owns the device. */
#define CL_DEVICE_RANK_DIST 0x0C1D0020
/** cl_uint: the number of the host of that process. */
#define CL_DEVICE_HOST_DIST 0x0C1D0021
/** @} */

/** Enqueues a command that copies the range of `src_buffer` to each destination.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueBroadcastBuffer(const cl_command_queue *cmd_queue_list, cl_mem src_buffer,
                                cl_uint num_dst_buffers, const cl_mem *dst_buffer_list,
                                size_t src_offset, const size_t *dst_offset_list,
                                size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that copies block i of the n blocks of `src_buffer` to destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueScatterBuffer(const cl_command_queue *cmd_queue_list, cl_mem src_buffer,
                              cl_uint num_dst_buffers, const cl_mem *dst_buffer_list,
                              size_t src_offset, const size_t *dst_offset_list,
                              size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                              const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that copies source i to block i of the n blocks of `dst_buffer`.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueGatherBuffer(cl_command_queue cmd_queue, cl_uint num_src_buffers,
                             const cl_mem *src_buffer_list, cl_mem dst_buffer,
                             const size_t *src_offset_list, size_t dst_offset, size_t bytes_to_copy,
                             cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                             cl_event *event);

/** Enqueues a command that copies source i to block i of the n blocks of every destination.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueAllGatherBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list,
                                size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that copies block j of source i to block i of destination j.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueAlltoAllBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                               const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                               const size_t *src_offset_list, const size_t *dst_offset_list,
                               size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that copies block j of source i to destination j, where each block has its
 *  own size and offsets.
 *
 *  The lists have n * n entries. Entry [i * n + j] describes block j of source i: its size, its
 *  offset in source i, and its offset in destination j. No list may be NULL.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueAlltoAllVBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list,
                                const size_t *bytes_to_copy_list, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that adds the sources element-wise and stores the sum in `dst_buffer`.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueReduceBuffer(cl_command_queue cmd_queue, cl_uint num_src_buffers,
                             const cl_mem *src_buffer_list, cl_mem dst_buffer,
                             const size_t *src_offset_list, size_t dst_offset, size_t bytes_to_copy,
                             cl_channel_type datatype, cl_uint num_events_in_wait_list,
                             const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces the sources element-wise with the operator `op` and stores the
 *  result in `dst_buffer`.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueReduceBufferWithOp(cl_command_queue cmd_queue, cl_uint num_src_buffers,
                                   const cl_mem *src_buffer_list, cl_mem dst_buffer,
                                   const size_t *src_offset_list, size_t dst_offset,
                                   size_t bytes_to_copy, cl_channel_type datatype,
                                   cl_reduction_op op, cl_uint num_events_in_wait_list,
                                   const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that adds the sources element-wise and stores the sum in every destination.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueAllReduceBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list,
                                size_t bytes_to_copy, cl_channel_type datatype,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                cl_event *event);

/** Enqueues a command that reduces the sources element-wise with the operator `op` and stores the
 *  result in every destination.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueAllReduceBufferWithOp(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                      const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                      const size_t *src_offset_list, const size_t *dst_offset_list,
                                      size_t bytes_to_copy, cl_channel_type datatype,
                                      cl_reduction_op op, cl_uint num_events_in_wait_list,
                                      const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that adds sources of n blocks each element-wise and stores block i of the sum
 *  in destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueReduceScatterBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                    const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                    const size_t *src_offset_list, const size_t *dst_offset_list,
                                    size_t bytes_to_copy, cl_channel_type datatype,
                                    cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces sources of n blocks each with the operator `op` and stores block
 *  i of the result in destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueReduceScatterBufferWithOp(
    const cl_command_queue *cmd_queue_list, cl_uint num_buffers, const cl_mem *src_buffer_list,
    const cl_mem *dst_buffer_list, const size_t *src_offset_list, const size_t *dst_offset_list,
    size_t bytes_to_copy, cl_channel_type datatype, cl_reduction_op op,
    cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that stores the element-wise sum of sources 0 to i in destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueScanBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                           const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                           const size_t *src_offset_list, const size_t *dst_offset_list,
                           size_t bytes_to_copy, cl_channel_type datatype,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event);

/** Enqueues a command that reduces sources 0 to i element-wise with the operator `op` and stores
 *  the result in destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_device_collectives. */
cl_int clEnqueueScanBufferWithOp(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                 const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                 const size_t *src_offset_list, const size_t *dst_offset_list,
                                 size_t bytes_to_copy, cl_channel_type datatype, cl_reduction_op op,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event);
/** @} */

/** @defgroup cldist_kernel_reductions Reductions with user-provided kernels
 *  @ingroup cldist_device_collectives Reductions whose operator is a user-provided kernel, for
 *  elements of any size.
 *
 *  The kernel has this signature:
 *
 *      kernel void combine(global T *a, ulong first_a, const global T *b, ulong first_b,
 *                          ulong count)
 *
 *  For all k < count, it combines a[first_a + k] and b[first_b + k], in that order, and stores the
 *  result in a[first_a + k]. It is launched with one dimension and any global size, so it must
 *  iterate over k in steps of get_global_size(0). The operator must be associative. It need not be
 *  commutative. The call overwrites the kernel's arguments, and no other thread may use the kernel
 *  during the call.
 *
 *  @par Errors
 *  These errors, before those of @ref cldist_device_collectives.
 *  @retval CL_INVALID_VALUE `element_size` is 0.
 *  @retval CL_INVALID_KERNEL `combine` is not valid or does not have five arguments.
 *
 *  If an argument has another type, the call returns the code of clSetKernelArg. Commands that were
 *  already enqueued then run to completion.
 *  @{ */

/** Enqueues a command that reduces the sources with the kernel `combine` and stores the result in
 *  `dst_buffer`.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_kernel_reductions. */
cl_int clEnqueueReduceBufferWithKernel(cl_command_queue cmd_queue, cl_uint num_src_buffers,
                                       const cl_mem *src_buffer_list, cl_mem dst_buffer,
                                       const size_t *src_offset_list, size_t dst_offset,
                                       size_t bytes_to_copy, size_t element_size, cl_kernel combine,
                                       cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces the sources with the kernel `combine` and stores the result in
 *  every destination.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_kernel_reductions. */
cl_int clEnqueueAllReduceBufferWithKernel(
    const cl_command_queue *cmd_queue_list, cl_uint num_buffers, const cl_mem *src_buffer_list,
    const cl_mem *dst_buffer_list, const size_t *src_offset_list, const size_t *dst_offset_list,
    size_t bytes_to_copy, size_t element_size, cl_kernel combine, cl_uint num_events_in_wait_list,
    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces sources of n blocks each with the kernel `combine` and stores
 *  block i of the result in destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_kernel_reductions. */
cl_int clEnqueueReduceScatterBufferWithKernel(
    const cl_command_queue *cmd_queue_list, cl_uint num_buffers, const cl_mem *src_buffer_list,
    const cl_mem *dst_buffer_list, const size_t *src_offset_list, const size_t *dst_offset_list,
    size_t bytes_to_copy, size_t element_size, cl_kernel combine, cl_uint num_events_in_wait_list,
    const cl_event *event_wait_list, cl_event *event);

/** Enqueues a command that reduces sources 0 to i with the kernel `combine` and stores the result
 *  in destination i.
 *
 *  @retval CL_SUCCESS The command is enqueued. Errors: see @ref cldist_kernel_reductions. */
cl_int clEnqueueScanBufferWithKernel(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                     const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                     const size_t *src_offset_list, const size_t *dst_offset_list,
                                     size_t bytes_to_copy, size_t element_size, cl_kernel combine,
                                     cl_uint num_events_in_wait_list,
                                     const cl_event *event_wait_list, cl_event *event);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
