/// From OpenCL's functions to entry points: the lock, the comparison of calls, errors as codes.
#pragma once

#include <new>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error_code.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "cluster/api/recording.hpp"
#include "cluster/calls/opencl_call.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/objects/object.hpp"

namespace cldist::cluster {

/// In a handler: the code of what was thrown, the one place where errors become codes.
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

/// A forked child of a process that has joined the job has none of the platform's threads, and its locks may be held forever.
inline void check_not_forked() {
    if (in_forked_child()) fail(CL_OUT_OF_RESOURCES, "the process was forked from one that uses the platform");
}

/// OpenCL's function of a call whose entry point is `body`, which has the lock except for commands that are left out. What that,
/// well or not, left to be called without the lock is called then.
template <const Call &call, auto body>
struct Entry;

template <const Call &call, typename... Arguments, void (*body)(Arguments...)>
struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static cl_int CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        const OpenclCall opencl_call(call.comparison != Comparison::never);
        cl_int code = CL_SUCCESS;
        try {
            check_not_forked();
            Home home = Home::none;
            bool left_out = false;
            if constexpr (can_be_left_out<call>) {
                home = home_of_command<call>(arguments...);
                left_out = home != Home::none && record_aside<call>(home, arguments...);
            }
            if (left_out) {
                body(arguments...);
            } else {
                const Locked lock;
                if (home == Home::none)
                    note<call>(arguments...);
                else
                    World::get().executor().note_aside();
                body(arguments...);
            }
        } catch (...) {
            code = code_of_exception(call.function);
        }
        run_callbacks();
        return code;
    }
};

template <const Call &call, typename Object, typename... Arguments, Object *(*body)(Arguments...)>
struct Entry<call, body> {
    static_assert(sizeof...(Arguments) == call.count, "calls.def says what each argument is");
    static Object *CL_API_CALL opencl_function(Arguments... arguments) noexcept {
        const OpenclCall opencl_call(call.comparison != Comparison::never);
        Object *object = nullptr;
        cl_int code = CL_SUCCESS;
        // Who asks may not want the code.
        cl_int *const errcode_ret = std::exchange(std::get<sizeof...(Arguments) - 1>(std::tie(arguments...)), &code);
        try {
            check_not_forked();
            const Locked lock;
            note<call>(arguments...);
            object = body(arguments...);
        } catch (...) {
            code = code_of_exception(call.function);
        }
        run_callbacks();
        if (errcode_ret != nullptr) *errcode_ret = code;
        return object;
    }
};

}  // namespace cldist::cluster
