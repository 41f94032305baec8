/// The entry points of the platform, by family. The entry point of a CLDIST_CALL (calls.def) runs
/// under the lock and throws errors. If it creates an object, it returns the handle, and may write
/// a code to the last argument, which is never null. Each entry point checks its arguments in the
/// order of the specification before it calls the schedule, so all processes find the same error.
#pragma once

#include <type_traits>

#include <CL/cl_ext_attach.h>
#include <CL/cl_ext_split.h>
#include <CL/cl_icd.h>

#include "cluster/calls/call.hpp"

namespace cldist::cluster {

/// How a process handles a command that it may leave out (home_of_command).
enum class Handling {
    enqueue,
    /// The process only checks the arguments and returns an event. The caller does not hold the
    /// lock.
    leave_out,
};

template <bool can_be_left_out, typename Function>
struct BodyOf;
template <typename... Arguments>
struct BodyOf<false, cl_int(CL_API_CALL *)(Arguments...)> {
    using Type = void(Arguments...);
};
template <typename... Arguments>
struct BodyOf<true, cl_int(CL_API_CALL *)(Arguments...)> {
    using Type = void(Handling, Arguments...);
};
template <typename Object, typename... Arguments>
struct BodyOf<false, Object *(CL_API_CALL *)(Arguments...)> {
    using Type = Object *(Arguments...);
};

#define CLDIST_CALL(function, entry, ...) \
    BodyOf<can_be_left_out(calls::function), decltype(cl_icd_dispatch::function)>::Type entry;
#define CLDIST_PLAIN(function, entry, ...) \
    std::remove_pointer_t<decltype(cl_icd_dispatch::function)> entry;
#define CLDIST_EXTENSION(function, entry, ...) BodyOf<false, function##_fn>::Type entry;
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"

}  // namespace cldist::cluster
