/// Buffers attached to devices, after SnuCL-D (Kim et al., PLDI 2016, sections 3.6 and 3.7).
///
/// On the cluster platform of `cldist run`, data goes where a command needs it, and every process keeps account of where it is,
/// also for commands that are none of its business. Of a buffer that is attached to a device the newest bytes are always there:
/// nothing has to be accounted for, and a process that has none of a command's devices does nothing for it if it
///
/// - waits for no events (if it gives one, that is made, which takes most of the time),
/// - is clEnqueueNDRangeKernel, clEnqueueTask, clEnqueueCopyBuffer, …BufferRect, clEnqueueFillBuffer, or clEnqueueWriteBuffer or
///   …BufferRect that does not block, and
/// - uses memory, all of it attached (not with CL_MEM_USE_HOST_PTR).
///
/// Attach what one device alone works on. On other platforms, and in one process alone, this says nothing and costs nothing.
///
/// Found in libcldist-collectives (link with -lcldist-collectives), which works on any platform, or on the cluster platform by
/// clGetExtensionFunctionAddressForPlatform. Usable from C99 and C++.
///
/// Threads: thread-safe. On the cluster platform all processes make the same calls, in the same order among all commands.
/// Mistakes in that are found later than of other commands, and not named: of those that a process does nothing for, it only
/// keeps a sum.
#ifndef CL_EXT_ATTACH_H
#define CL_EXT_ATTACH_H

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Attaches `buffer` to `device` until it is detached, attached to another device, or released. Its contents, if it has any, move
 *  there, behind the commands enqueued before that use them. Does not wait for that. Sub-buffers and images that are made of it
 *  are attached with it.
 *
 *  Commands of other devices may use it, as before: what they read comes from `device` each time, and what they write goes back
 *  there when they have ended, all of a kernel's argument that is not read-only.
 *
 *  CL_INVALID_MEM_OBJECT  if `buffer` is no valid buffer, or a sub-buffer (attach what it is a part of);
 *  CL_INVALID_DEVICE      if `device` is not valid, or not one of the buffer's context;
 *  CL_OUT_OF_HOST_MEMORY  if there is none. */
cl_int clAttachBufferToDevice(cl_mem buffer, cl_device_id device);

/** Ends that: from now on it is kept account of who has which bytes. Nothing moves. Does nothing if the buffer is not attached.
 *
 *  CL_INVALID_MEM_OBJECT  if `buffer` is no valid buffer, or a sub-buffer. */
cl_int clDetachBuffer(cl_mem buffer);

/** For clGetExtensionFunctionAddressForPlatform. */
typedef cl_int(CL_API_CALL *clAttachBufferToDevice_fn)(cl_mem buffer, cl_device_id device);
typedef cl_int(CL_API_CALL *clDetachBuffer_fn)(cl_mem buffer);

#ifdef __cplusplus
}
#endif

#endif
