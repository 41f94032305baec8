/** @file
 *  Buffers bound to devices, after SnuCL-D (Kim et al., PLDI 2016, sections 3.6 and 3.7).
 *
 *  On the cluster platform of `cldist run`, data moves to the device of each command. Every process tracks where the
 *  newest copy of each range is, also for commands of other processes. A buffer that is bound to a device always has
 *  its newest bytes there, so this tracking is not needed. A process that has none of a command's devices then does
 *  nothing for the command if the command
 *
 *  - has no wait list (if it returns an event, the event is created, which takes most of the time),
 *  - is clEnqueueNDRangeKernel, clEnqueueTask, clEnqueueCopyBuffer, clEnqueueCopyBufferRect, clEnqueueFillBuffer, or
 *    a non-blocking clEnqueueWriteBuffer or clEnqueueWriteBufferRect, and
 *  - uses only bound buffers, created without CL_MEM_USE_HOST_PTR.
 *
 *  Bind buffers that only one device uses. On other platforms, and with one process, the calls have no effect and no
 *  cost.
 *
 *  The functions are in libcldist-collectives (link with -lcldist-collectives), which works on any platform. On the
 *  cluster platform, clGetExtensionFunctionAddressForPlatform returns them, too. The header is valid C99 and C++.
 *
 *  Thread-safe. On the cluster platform all processes make the same calls, in the same order among all commands. If
 *  the calls differ, the platform detects this later than for other commands, and it cannot report which call
 *  differs: for commands that a process does not take part in, it keeps only a checksum. */
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
 *  The contents move to the device after the commands that were enqueued before and use the buffer. The call does not
 *  wait for this. Sub-buffers and images of the buffer are bound with it.
 *
 *  Commands of other devices may still use the buffer. They read its bytes from `device` each time. When they have
 *  ended, everything that they may have written (any kernel argument that is not read-only) is copied back to
 *  `device`.
 *
 *  @retval CL_SUCCESS The buffer is bound.
 *  @retval CL_INVALID_MEM_OBJECT `buffer` is not a valid buffer or is a sub-buffer. Bind the parent buffer instead.
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
