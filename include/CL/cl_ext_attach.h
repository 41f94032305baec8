/** @file
 *  Buffers bound to devices, after SnuCL-D (Kim et al., PLDI 2016, sections 3.6 and 3.7).
 *
 *  On the cluster platform of `cldist run`, data moves to the device of each command. Every process
 *  tracks where the newest copy of each range is, also for commands of other processes. The newest
 *  bytes of a buffer that is bound to a device are always there, so this tracking is not needed. A
 *  process that does not own a command's device does nothing for the command if the command
 *
 *  - has no wait list (if the call returns an event, the process still creates the event, which
 *    takes most of the time),
 *  - is clEnqueueNDRangeKernel, clEnqueueTask, clEnqueueCopyBuffer, clEnqueueCopyBufferRect,
 *    clEnqueueFillBuffer, or a non-blocking clEnqueueWriteBuffer or clEnqueueWriteBufferRect, and
 *  - uses only bound buffers, created without CL_MEM_USE_HOST_PTR.
 *
 *  Bind buffers that only one device uses. On other platforms, and with one process, the calls have
 *  no effect and no cost.
 *
 *  The functions are in libcldist-collectives (link with -lcldist-collectives), which works on any
 *  platform. On the cluster platform, clGetExtensionFunctionAddressForPlatform returns them, too.
 *  The header is valid C99 and C++.
 *
 *  Thread-safe. An OpenCL callback may make these calls on any platform except the cluster
 *  platform. There, all processes must make the same calls, in the same order relative to all
 *  commands. If the calls differ, the platform detects this later than for other commands. It
 *  cannot report which call differs, because a process keeps only a checksum of the commands for
 *  which it does nothing. */
#ifndef CL_EXT_ATTACH_H
#define CL_EXT_ATTACH_H

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup cldist_attach Buffers bound to devices
 *  Declares the device on which a buffer is used.
 *  @{ */

/** Binds `buffer` to `device` until it is detached, bound to another device, or released.
 *
 *  The contents move to the device after the earlier commands that use the buffer. The call does
 *  not wait for this. Sub-buffers and images of the buffer are bound with it.
 *
 *  Commands of other devices may still use the buffer. Each of them reads the bytes from `device`.
 *  When it has ended, all bytes that it may have written (those of any kernel argument that is not
 *  read-only) are copied back to `device`.
 *
 *  If bytes cannot move to `device`, for example for lack of memory, the next command that uses the
 *  buffer there fails.
 *
 *  @retval CL_SUCCESS The buffer is bound.
 *  @retval CL_INVALID_MEM_OBJECT `buffer` is not a valid buffer or is a sub-buffer. Bind the parent
 *          buffer instead.
 *  @retval CL_INVALID_DEVICE `device` is not valid or is not a device of the buffer's context.
 *  @retval CL_OUT_OF_HOST_MEMORY Host memory could not be allocated. */
cl_int clAttachBufferToDevice(cl_mem buffer, cl_device_id device);

/** Ends the binding of `buffer`; from then on, all processes track its contents.
 *
 *  No data moves. If the buffer is not bound, the call does nothing.
 *
 *  @retval CL_SUCCESS The buffer is not bound.
 *  @retval CL_INVALID_MEM_OBJECT `buffer` is not a valid buffer or is a sub-buffer. */
cl_int clDetachBuffer(cl_mem buffer);

/** The type of #clAttachBufferToDevice, for clGetExtensionFunctionAddressForPlatform. */
typedef cl_int(CL_API_CALL *clAttachBufferToDevice_fn)(cl_mem buffer, cl_device_id device);
/** The type of #clDetachBuffer, for clGetExtensionFunctionAddressForPlatform. */
typedef cl_int(CL_API_CALL *clDetachBuffer_fn)(cl_mem buffer);
/** @} */

#ifdef __cplusplus
}
#endif

#endif
