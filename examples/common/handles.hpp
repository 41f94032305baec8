#pragma once

#include <CL/cl.h>
#include <fmt/core.h>

#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace examples {

inline void check(cl_int status, const char *what) {
    if (status != CL_SUCCESS)
        throw std::runtime_error(fmt::format("{}: OpenCL error {}", what, status));
}

/// Owns one reference to an OpenCL object.
template <class T, cl_int (*release)(T)>
class Handle {
public:
    Handle() = default;
    explicit Handle(T object) : object_(object) {}
    Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Handle() {
        if (object_) release(object_);
    }

    T get() const { return object_; }
    explicit operator bool() const { return object_; }

    /// For the output argument of an OpenCL call: releases the object and owns the new one.
    T *put() {
        *this = Handle();
        return &object_;
    }

private:
    T object_ = nullptr;
};

using Context = Handle<cl_context, clReleaseContext>;
using Queue = Handle<cl_command_queue, clReleaseCommandQueue>;
using Program = Handle<cl_program, clReleaseProgram>;
using Kernel = Handle<cl_kernel, clReleaseKernel>;
using Buffer = Handle<cl_mem, clReleaseMemObject>;
using Event = Handle<cl_event, clReleaseEvent>;

/// The events of a wait list. Null events are left out.
class WaitList {
public:
    WaitList(std::initializer_list<cl_event> events) {
        for (cl_event event : events)
            if (event) events_[count_++] = event;
    }
    cl_uint count() const { return count_; }
    const cl_event *data() const { return count_ ? events_ : nullptr; }

private:
    cl_event events_[4];
    cl_uint count_ = 0;
};

inline void wait(const Event &event) {
    const cl_event raw = event.get();
    check(clWaitForEvents(1, &raw), "clWaitForEvents");
}

}  // namespace examples
