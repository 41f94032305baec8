/// Functions that convert the program's handles to objects. They throw an Error if a handle is not
/// a valid one of its type.
#pragma once

#include "base/status.hpp"
#include "cluster/objects/event.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/objects/program.hpp"
#include "cluster/objects/queue.hpp"

namespace cldist::cluster {

template <typename T, typename Handle>
T &object_of(Handle handle, cl_int code, const char *what) {
    T *const object = T::from(handle);
    if (object == nullptr) throw Error(code, what);
    return *object;
}
inline DeviceObject &device_of(cl_device_id h) {
    return object_of<DeviceObject>(h, CL_INVALID_DEVICE,
                                   "the device is not a device of the cluster platform");
}
inline ContextObject &context_of(cl_context h) {
    return object_of<ContextObject>(h, CL_INVALID_CONTEXT, "the context is not valid");
}
inline QueueObject &queue_of(cl_command_queue h) {
    return object_of<QueueObject>(h, CL_INVALID_COMMAND_QUEUE, "the command queue is not valid");
}
inline MemObject &memory_of(cl_mem h) {
    return object_of<MemObject>(h, CL_INVALID_MEM_OBJECT, "the memory object is not valid");
}
inline SamplerObject &sampler_of(cl_sampler h) {
    return object_of<SamplerObject>(h, CL_INVALID_SAMPLER, "the sampler is not valid");
}
inline ProgramObject &program_of(cl_program h) {
    return object_of<ProgramObject>(h, CL_INVALID_PROGRAM, "the program is not valid");
}
inline KernelObject &kernel_of(cl_kernel h) {
    return object_of<KernelObject>(h, CL_INVALID_KERNEL, "the kernel is not valid");
}
inline EventObject &event_of(cl_event h) {
    return object_of<EventObject>(h, CL_INVALID_EVENT, "the event is not valid");
}

/// Defines the entry points clRetain… and clRelease….
#define CLDIST_REFERENCES(name, Handle, object)                    \
    void retain_##name(Handle handle) { object(handle).retain(); } \
    void release_##name(Handle handle) { object(handle).release(); }

}  // namespace cldist::cluster
