/// What all entry points of the platform share. Each checks its arguments in the order of the specification, so that all
/// processes find the same error, before it tells the schedule anything.
#pragma once

#include <concepts>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/status.hpp"
#include "cluster/call_log.hpp"
#include "cluster/event.hpp"
#include "cluster/memory.hpp"
#include "cluster/program.hpp"
#include "cluster/queue.hpp"
#include "cluster/world.hpp"

namespace cldist::cluster {

template <typename... Args>
[[noreturn]] void fail(cl_int code, fmt::format_string<Args...> format, Args &&...args) {
    throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}
/// Throws an Error with `code` unless `right`.
inline void require(bool right, cl_int code, const char *what) {
    if (!right) throw Error(code, what);
}

/// Runs the body of an entry point under the lock: the one place where errors become codes.
template <typename Body>
cl_int locked(const char *call, Body &&body) noexcept {
    try {
        const std::lock_guard lock(api_mutex());
        body();
        return CL_SUCCESS;
    } catch (const Error &error) {
        log_info("{}: {} ({})", call, error.status().message, error.status().code);
        return error.status().code;
    } catch (const std::bad_alloc &) {
        return CL_OUT_OF_HOST_MEMORY;
    } catch (...) {
        return CL_OUT_OF_RESOURCES;
    }
}

/// The same, then what the body, well or not, left to be called without the lock.
template <typename Body>
cl_int entry(const char *call, Body &&body) noexcept {
    const cl_int code = locked(call, std::forward<Body>(body));
    run_callbacks();
    return code;
}

/// The same for one that returns what the body returns, or null and a code in `errcode_ret`, which may be null.
template <typename Body>
auto creating_entry(const char *call, cl_int *errcode_ret, Body &&body) noexcept -> decltype(body()) {
    decltype(body()) result = nullptr;
    const cl_int code = entry(call, [&] { result = body(); });
    if (errcode_ret != nullptr) *errcode_ret = code;
    return result;
}

/// Leaves the lock for as long as it lives: for waiting.
class Unlocked {
public:
    Unlocked() { api_mutex().unlock(); }
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;
    ~Unlocked() { api_mutex().lock(); }
};

// ---- Handles -------------------------------------------------------------------------------------------------------

template <typename T, typename Handle>
T &object_of(Handle handle, cl_int code, const char *what) {
    T *const object = T::from(handle);
    if (object == nullptr) throw Error(code, what);
    return *object;
}
inline DeviceObject &device_of(cl_device_id h) {
    return object_of<DeviceObject>(h, CL_INVALID_DEVICE, "the device is not one of this platform");
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

/// A new object, with its number.
template <typename T, typename... Args>
T *make(Args &&...args) {
    T *const object = new T(std::forward<Args>(args)...);
    object->number = World::get().next_number();
    return object;
}

// ---- What processes must do alike ------------------------------------------------------------------------------------

template <typename Number>
requires std::integral<Number> std::uint64_t recorded(Number number) { return static_cast<std::uint64_t>(number); }
inline std::uint64_t recorded(std::nullptr_t) { return 0; }
template <typename T, typename Handle>
std::uint64_t recorded_object(Handle handle) {
    const T *const object = T::from(handle);
    return object != nullptr ? object->number : 0;
}
inline std::uint64_t recorded(cl_device_id h) { return recorded_object<DeviceObject>(h); }
inline std::uint64_t recorded(cl_context h) { return recorded_object<ContextObject>(h); }
inline std::uint64_t recorded(cl_command_queue h) { return recorded_object<QueueObject>(h); }
inline std::uint64_t recorded(cl_mem h) { return recorded_object<MemObject>(h); }
inline std::uint64_t recorded(cl_program h) { return recorded_object<ProgramObject>(h); }
inline std::uint64_t recorded(cl_kernel h) { return recorded_object<KernelObject>(h); }
inline std::uint64_t recorded(cl_event h) { return recorded_object<EventObject>(h); }
/// Of a list, or 0 if there is none.
inline std::uint64_t sizes(const std::size_t *list, std::size_t count) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; list != nullptr && i < count; ++i) all = mixed(all + list[i]);
    return all;
}
inline std::uint64_t text(const char *characters) { return characters != nullptr ? hash_of(characters) : 0; }

/// Every call that all processes must make alike says so first.
template <const CallSite &site, typename... Arguments>
void record(Arguments... arguments) {
    World &world = World::get();
    if (!world.alone()) world.calls().record<site>(recorded(arguments)...);
}

// ---- Answers of clGet…Info -----------------------------------------------------------------------------------------

/// Where an answer goes: the last three arguments of every clGet…Info.
struct Answer {
    std::size_t size;
    void *value;
    std::size_t *size_ret;

    void bytes(const void *data, std::size_t bytes) const {
        if (value != nullptr) {
            if (size < bytes) fail(CL_INVALID_VALUE, "param_value_size is {}, but the value has {} bytes", size, bytes);
            if (bytes > 0) std::memcpy(value, data, bytes);
        }
        if (size_ret != nullptr) *size_ret = bytes;
    }
    template <typename T>
    void give(const T &answer) const {
        bytes(&answer, sizeof answer);
    }
    void text(std::string_view answer) const {
        const std::string with_end(answer);
        bytes(with_end.c_str(), with_end.size() + 1);
    }
    template <typename T>
    void list(const std::vector<T> &answer) const {
        bytes(answer.data(), answer.size() * sizeof(T));
    }
};

[[noreturn]] inline void no_such_param(cl_uint param) { fail(CL_INVALID_VALUE, "there is no parameter {:#x}", param); }

// ---- Commands ------------------------------------------------------------------------------------------------------

/// The last three arguments of every clEnqueue….
struct WaitList {
    cl_uint count;
    const cl_event *events;
    cl_event *event;
};

/// The checked wait list of a command of `context`.
std::vector<EventObject *> wait_list_of(const WaitList &list, const ContextObject &context);

/// Writes the program's event.
inline void give(const Ref<EventObject> &object, cl_event *event) {
    if (event == nullptr) return;
    object->retain();
    *event = object->handle();
}

/// Waits until this process knows of the command's end, outside of the lock. Throws an Error if it failed.
void wait_for_result(EventObject &event);

inline Executor &executor() { return World::get().executor(); }

/// Enqueues a checked command, gives the program its event and, if it is blocking, waits for its result. `native` as in
/// Executor::run(). Throws an Error as that does, or as wait_for_result().
template <typename Native>
void enqueue(Enqueued &&command, cl_event *event, Native &&native) {
    const bool blocking = command.blocking;
    const Ref<EventObject> enqueued =
        executor().run(std::move(command), event != nullptr || blocking, std::forward<Native>(native));
    give(enqueued, event);
    if (blocking) wait_for_result(*enqueued);
}

inline void check_context(const QueueObject &queue, const MemObject &memory) {
    require(queue.context.get() == memory.context.get(), CL_INVALID_CONTEXT,
            "queue and memory object are not of one context");
}
inline void check_host_access(const MemObject &memory, cl_mem_flags forbidden) {
    require((memory.flags & (CL_MEM_HOST_NO_ACCESS | forbidden)) == 0, CL_INVALID_OPERATION,
            "the memory object's flags forbid the host that access");
}

/// Throws an Error unless the flags of a new memory object go together.
void check_mem_flags(cl_mem_flags flags);
/// Throws an Error unless `host_ptr` goes with the flags.
void check_host_ptr(cl_mem_flags flags, const void *host_ptr);
/// The flags of a part of a memory object, made with `flags`. Throws an Error.
cl_mem_flags inherited_flags(const MemObject &parent, cl_mem_flags flags);
/// The same, with what the kernels may do if they don't say it.
cl_mem_flags with_device_access(cl_mem_flags flags);
/// Throws an Error with CL_INVALID_OPERATION if no device has.
void check_some_device_has_images(const ContextObject &context);

/// Throws an Error unless the memory object is a buffer that has these bytes.
void check_range(const MemObject &buffer, std::size_t offset, std::size_t size);
/// Throws an Error if it is a sub-buffer that is not aligned for the queue's device.
void check_alignment(const QueueObject &queue, const MemObject &memory);

/// An address behind a pointer that the program gave.
inline std::byte *at(void *pointer, std::size_t offset) { return static_cast<std::byte *>(pointer) + offset; }
inline const std::byte *at(const void *pointer, std::size_t offset) {
    return static_cast<const std::byte *>(pointer) + offset;
}

}  // namespace cldist::cluster
