#pragma once

#include <span>
#include <utility>

#include <CL/cl.h>

namespace cldist {

// One retain and one release function per handle type. OpenCL does not count references of root
// devices.
inline void retain(cl_device_id h) { clRetainDevice(h); }
inline void retain(cl_context h) { clRetainContext(h); }
inline void retain(cl_command_queue h) { clRetainCommandQueue(h); }
inline void retain(cl_mem h) { clRetainMemObject(h); }
inline void retain(cl_event h) { clRetainEvent(h); }
inline void retain(cl_program h) { clRetainProgram(h); }
inline void retain(cl_kernel h) { clRetainKernel(h); }
inline void release(cl_device_id h) { clReleaseDevice(h); }
inline void release(cl_context h) { clReleaseContext(h); }
inline void release(cl_command_queue h) { clReleaseCommandQueue(h); }
inline void release(cl_mem h) { clReleaseMemObject(h); }
inline void release(cl_event h) { clReleaseEvent(h); }
inline void release(cl_program h) { clReleaseProgram(h); }
inline void release(cl_kernel h) { clReleaseKernel(h); }

/// A wait list, as OpenCL's functions take it.
struct WaitArguments {
    // Implicit, because it is another view of the same list.
    WaitArguments(std::span<const cl_event> list)
        : count(static_cast<cl_uint>(list.size())), events(count != 0 ? list.data() : nullptr) {}

    cl_uint count;
    const cl_event *events;
};

/// Owns one reference to an OpenCL object.
template <typename T>
class Handle {
public:
    Handle() = default;
    Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Handle() { reset(); }

    /// Takes ownership of the caller's reference.
    static Handle adopt(T handle) { return Handle(handle); }
    /// Adds a reference.
    static Handle share(T handle) {
        if (handle != nullptr) retain(handle);
        return Handle(handle);
    }

    [[nodiscard]] T get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }
    void reset() {
        if (handle_ != nullptr) release(std::exchange(handle_, nullptr));
    }

    /// Releases ownership to the caller.
    [[nodiscard]] T give() { return std::exchange(handle_, nullptr); }

    /// Returns a pointer for calls that write a new object.
    T *out() {
        reset();
        return &handle_;
    }

private:
    explicit Handle(T handle) : handle_(handle) {}

    T handle_ = nullptr;
};

using Device = Handle<cl_device_id>;
using Context = Handle<cl_context>;
using Queue = Handle<cl_command_queue>;
using Mem = Handle<cl_mem>;
using Event = Handle<cl_event>;
using Program = Handle<cl_program>;
using Kernel = Handle<cl_kernel>;

}  // namespace cldist
