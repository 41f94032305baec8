/// Connects OpenCL's functions with entry points: takes the lock, records calls for the comparison,
/// returns errors as codes.
#pragma once

#include <new>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error_code.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/recording.hpp"
#include "cluster/calls/opencl_call.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/objects/object.hpp"

namespace cldist::cluster {

/// In a handler: returns the code of the exception. Only this function turns errors into codes.
inline cl_int code_of_exception(std::string_view function) noexcept {
    try {
        throw;
    } catch (const Error &error) {
        log_info("{}: {}: {}", function, error.status().message, code_text(error.status().code));
        return error.status().code;
    } catch (const std::bad_alloc &) {
        return CL_OUT_OF_HOST_MEMORY;
    } catch (...) {
        return CL_OUT_OF_RESOURCES;
    }
}

/// A forked child of a process that has joined the job lacks the platform's threads, and its locks may be held forever.
inline void check_not_forked() {
    if (in_forked_child())
        fail(CL_OUT_OF_RESOURCES,
             "the process is a forked child of a process that uses the platform; only the parent can use it");
}

/// Before a command is enqueued, under the lock: waits until the device is not too far behind
/// (Throttle::markers_to_wait_for). The lock is free meanwhile. A command must not leave the lock
/// after its first decision, because another thread's command would then be decided without the
/// rest of it.
template <const Call &call, typename First, typename... Rest>
void keep_back(const First &first, const Rest &...) {
    if constexpr (std::is_same_v<First, cl_command_queue> && call.function.starts_with("clEnqueue")) {
        QueueObject *const queue = QueueObject::from(first);
        if (queue == nullptr) return;
        const std::vector<Event> markers = World::get().executor().throttle().markers_to_wait_for(*queue);
        if (markers.empty()) return;
        const Unlocked unlocked;
        for (const Event &marker : markers) wait_for(marker.get());
    }
}

/// Calls `use` in an OpenCL function and returns the code of what it throws. Afterwards runs the
/// callbacks that must run without the lock.
template <const Call &call, typename Use>
cl_int guarded(Use &&use) noexcept {
    const OpenclCall opencl_call(call.comparison != Comparison::never);
    cl_int code = CL_SUCCESS;
    try {
        check_not_forked();
        use();
    } catch (...) {
        code = code_of_exception(call.function);
    }
    run_callbacks();
    return code;
}

/// The OpenCL function of a call. `body` is its entry point, which runs under the lock.
template <const Call &call, auto body>
struct Entry;

template <const Call &call, typename... Arguments, void (*body)(Arguments...)>
requires(!can_be_left_out(call)) struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static cl_int CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        return guarded<call>([&] {
            const Locked lock;
            keep_back<call>(arguments...);
            note<call>(arguments...);
            body(arguments...);
        });
    }
};

/// For a command that may be left out. Then `body` runs without the lock.
template <const Call &call, typename... Arguments, void (*body)(Handling, Arguments...)>
requires(can_be_left_out(call)) struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static cl_int CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        return guarded<call>([&] {
            const Home home = home_of_command<call>(arguments...);
            if (home != Home::none && record_aside<call>(home, arguments...))
                return body(Handling::leave_out, arguments...);
            const Locked lock;
            keep_back<call>(arguments...);
            if (home == Home::none)
                note<call>(arguments...);
            else
                World::get().executor().note_aside();
            body(Handling::enqueue, arguments...);
        });
    }
};

template <const Call &call, typename Object, typename... Arguments, Object *(*body)(Arguments...)>
struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static Object *CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        Object *object = nullptr;
        cl_int code_of_body = CL_SUCCESS;
        // The program may pass null.
        cl_int *const errcode_ret =
            std::exchange(std::get<sizeof...(Arguments) - 1>(std::tie(arguments...)), &code_of_body);
        const cl_int code = guarded<call>([&] {
            const Locked lock;
            keep_back<call>(arguments...);
            note<call>(arguments...);
            object = body(arguments...);
        });
        if (errcode_ret != nullptr) *errcode_ret = code != CL_SUCCESS ? code : code_of_body;
        return object;
    }
};

}  // namespace cldist::cluster
