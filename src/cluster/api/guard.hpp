/// Connects OpenCL's functions with entry points: takes the lock, records calls for the comparison,
/// returns errors as codes.
#pragma once

#include <string_view>
#include <tuple>
#include <utility>

#include "base/forks.hpp"
#include "cluster/api/call_arguments.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/calls/opencl_call.hpp"
#include "cluster/objects/errors.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/objects/object.hpp"
#include "cluster/objects/queue.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// In a catch handler: returns the code of the exception and logs an Error. Only this function
/// translates errors to codes.
cl_int code_of_exception(std::string_view function) noexcept;

/// Throws an Error in a forked child of a process that has joined the job. The child lacks the
/// platform's threads, and locks may be held forever.
inline void check_not_forked() {
    if (in_forked_child())
        fail(CL_OUT_OF_RESOURCES,
             "the process is a forked child of a process that uses the platform; only the parent "
             "can use it");
}

/// Called under the lock before a command is enqueued: leaves the lock until the program is not too
/// far ahead of the device (Throttle::markers_to_wait_for). After its first decision a command must
/// not leave the lock: another thread's command would then be decided without the rest of it.
void throttle(const CallArguments &arguments);

/// Records a call for the comparison with other processes' calls, if there are any. Under the lock.
void record(const CallArguments &arguments);

/// Called under the lock at the start of a call of the program: throttle(), then records the call
/// for other processes unless record_aside() has recorded it.
void begin_call(const CallArguments &arguments, bool recorded_aside = false);

template <typename T, typename Handle>
Homes homes_of(Handle h) {
    T *const object = T::from(h);
    return object != nullptr ? object->homes() : Homes{};
}

/// Returns where the memory objects that the command uses are attached, seen from this process.
/// Returns Home::none if the command has a wait list or blocks. All processes agree on whether it
/// is Home::none. Called without the lock.
template <const Call &call, typename... Arguments>
[[gnu::always_inline]] inline Home home_of_command(cl_command_queue queue,
                                                   const Arguments &...arguments) {
    if (version_of_homes.load(std::memory_order_relaxed) == 0 || host_mode().orders_calls())
        return Home::none;
    Homes homes{Home::elsewhere};
    const auto take = [&]<std::size_t at, typename T>(std::integral_constant<std::size_t, at>,
                                                      const T &value) {
        constexpr std::string_view name = call.arguments[at].name;
        if constexpr (std::is_same_v<T, cl_mem>)
            homes = homes_of_both(homes, homes_of<MemObject>(value));
        else if constexpr (std::is_same_v<T, cl_kernel>)
            homes = homes_of_both(homes, homes_of<KernelObject>(value));
        else if constexpr (std::is_same_v<T, const cl_event *>)
            homes = value == nullptr ? homes : Homes{};
        else if constexpr (name == "num_events_in_wait_list" || name == "blocking_write")
            homes = value == T{} ? homes : Homes{};
    };
    [&]<std::size_t... i>(std::index_sequence<i...>) {
        (take(std::integral_constant<std::size_t, i + 1>(), arguments), ...);
    }
    (std::make_index_sequence<sizeof...(Arguments)>());
    const QueueObject *const object = QueueObject::from(queue);
    if (object == nullptr) return Home::none;
    // All processes decide commands that wait for user events, except those on buffers that the
    // program has attached.
    if (!homes.by_program() && object->behind_user_events.load(std::memory_order_relaxed))
        return Home::none;
    return homes.for_device(object->device->memory);
}

/// Records a command whose `home` is not Home::none, without a number (CallLog::record_aside).
/// Returns whether this process has nothing else to do for it.
template <const Call &call>
[[gnu::always_inline]] inline bool record_aside(Home home, const CallArguments &arguments) {
    World &world = World::get();
    if (world.alone()) return false;
    world.calls().record_aside(call, quickly_compared_values<call>(arguments));
    return home == Home::elsewhere &&
           !QueueObject::from(arguments.as<cl_command_queue>(0))->is_native();
}

/// Calls `use` for an OpenCL function and returns CL_SUCCESS or the code of the exception.
/// Afterwards runs the callbacks that must run without the lock.
template <typename Use>
cl_int guarded(const Call &call, Use &&use) noexcept {
    const OpenclCall opencl_call(call.comparison != Comparison::never,
                                 &call == &calls::clFinish || &call == &calls::clWaitForEvents);
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

/// The OpenCL function of a call. `body` is its entry point, which runs under the lock unless it
/// leaves the command out.
template <const Call &call, auto body>
struct Entry;

template <const Call &call, typename... Arguments, void (*body)(Arguments...)>
requires(!can_be_left_out(call)) struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static cl_int CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        return guarded(call, [&] {
            const Locked lock;
            begin_call(CallArguments(call, arguments...));
            body(arguments...);
        });
    }
};

template <const Call &call, typename... Arguments, void (*body)(Handling, Arguments...)>
requires(can_be_left_out(call)) struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static cl_int CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        return guarded(call, [&] {
            const Home home = home_of_command<call>(arguments...);
            if (home != Home::none && record_aside<call>(home, CallArguments(call, arguments...)))
                return body(Handling::leave_out, arguments...);
            const Locked lock;
            begin_call(CallArguments(call, arguments...), home != Home::none);
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
        cl_int *const errcode_ret = std::exchange(
            std::get<sizeof...(Arguments) - 1>(std::tie(arguments...)), &code_of_body);
        const cl_int code = guarded(call, [&] {
            const Locked lock;
            begin_call(CallArguments(call, arguments...));
            object = body(arguments...);
        });
        if (errcode_ret != nullptr) *errcode_ret = code != CL_SUCCESS ? code : code_of_body;
        return object;
    }
};

}  // namespace cldist::cluster
