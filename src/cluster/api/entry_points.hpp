/// The entry points of the platform, by family. Of one in calls.def's CLDIST_CALL this is the body: it runs under the lock and
/// throws errors; one that makes an object returns its handle, and may write a code to the last argument, which is never
/// null. Each checks its arguments in the order of the specification, so that all processes find the same error, before it
/// tells the schedule anything.
#pragma once

#include <type_traits>

#include <CL/cl_ext_attach.h>
#include <CL/cl_ext_split.h>
#include <CL/cl_icd.h>

namespace cldist::cluster {

template <typename Function>
struct BodyOf;
template <typename... Arguments>
struct BodyOf<cl_int(CL_API_CALL *)(Arguments...)> {
    using Type = void(Arguments...);
};
template <typename Object, typename... Arguments>
struct BodyOf<Object *(CL_API_CALL *)(Arguments...)> {
    using Type = Object *(Arguments...);
};

#define CLDIST_CALL(function, entry, ...) BodyOf<decltype(cl_icd_dispatch::function)>::Type entry;
#define CLDIST_PLAIN(function, entry, ...) std::remove_pointer_t<decltype(cl_icd_dispatch::function)> entry;
#define CLDIST_EXTENSION(function, entry, ...) BodyOf<function##_fn>::Type entry;
#define CLDIST_ABSENT(function)
#include "cluster/calls/calls.def"

}  // namespace cldist::cluster
