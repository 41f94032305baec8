#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error_code.hpp"
#include "base/status.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// Throws an Error with the name of the call if `code` is not CL_SUCCESS.
inline void check(cl_int code, const char *call) {
    if (code != CL_SUCCESS) throw Error(code, fmt::format("{} returned {}", call, code_text(code)));
}

/// Calls `function`, whose last parameter is the address of an error code. Returns the new object,
/// or throws an Error with the name of the call.
template <typename Object, typename... Parameters, typename... Arguments>
[[nodiscard]] Handle<Object> create(const char *call, Object (*function)(Parameters...),
                                    Arguments... arguments) {
    cl_int code = CL_SUCCESS;
    auto object = Handle<Object>::adopt(function(arguments..., &code));
    check(code, call);
    return object;
}

/// Sets the first arguments of a kernel. Returns the first failure.
template <typename... Values>
[[nodiscard]] cl_int set_arguments(cl_kernel kernel, const Values &...values) {
    cl_uint index = 0;
    cl_int code = CL_SUCCESS;
    static_cast<void>(
        (((code = clSetKernelArg(kernel, index++, sizeof values, &values)) == CL_SUCCESS) && ...));
    return code;
}

// Typed queries per object type. query() returns the value of `param`, or nothing if the query
// fails. query_list() returns a list of values, which is empty if the query fails.
#define CLDIST_QUERY(Object, function)                                                       \
    template <typename Value>                                                                \
    [[nodiscard]] std::optional<Value> query(Object object, cl_uint param) {                 \
        Value value{};                                                                       \
        if (function(object, param, sizeof value, &value, nullptr) != CL_SUCCESS) return {}; \
        return value;                                                                        \
    }                                                                                        \
    template <typename Value>                                                                \
    [[nodiscard]] std::vector<Value> query_list(Object object, cl_uint param) {              \
        std::size_t size = 0;                                                                \
        if (function(object, param, 0, nullptr, &size) != CL_SUCCESS) return {};             \
        std::vector<Value> list(size / sizeof(Value));                                       \
        if (function(object, param, size, list.data(), nullptr) != CL_SUCCESS) return {};    \
        return list;                                                                         \
    }
CLDIST_QUERY(cl_context, clGetContextInfo)
CLDIST_QUERY(cl_command_queue, clGetCommandQueueInfo)
CLDIST_QUERY(cl_mem, clGetMemObjectInfo)
CLDIST_QUERY(cl_event, clGetEventInfo)
CLDIST_QUERY(cl_device_id, clGetDeviceInfo)
CLDIST_QUERY(cl_platform_id, clGetPlatformInfo)
CLDIST_QUERY(cl_program, clGetProgramInfo)
CLDIST_QUERY(cl_kernel, clGetKernelInfo)
#undef CLDIST_QUERY

/// A text, which is empty if the query fails.
template <typename Object>
[[nodiscard]] std::string query_string(Object object, cl_uint param) {
    const auto text = query_list<char>(object, param);
    return {text.begin(), std::ranges::find(text, '\0')};
}

/// The execution status of an event. If the query fails, CL_INVALID_EVENT.
[[nodiscard]] inline cl_int execution_status(cl_event event) {
    return query<cl_int>(event, CL_EVENT_COMMAND_EXECUTION_STATUS).value_or(CL_INVALID_EVENT);
}

/// The status of the first failed event, or CL_COMPLETE.
[[nodiscard]] inline cl_int first_failure(std::span<const cl_event> events) {
    for (const cl_event event : events)
        if (const cl_int status = execution_status(event); status < 0) return status;
    return CL_COMPLETE;
}

/// Returns true for CL_DEVICE_TYPE_ALL and for combinations of the other types.
[[nodiscard]] inline bool is_device_type(cl_device_type type) {
    constexpr cl_device_type all = CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU |
                                   CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR |
                                   CL_DEVICE_TYPE_CUSTOM;
    return type == CL_DEVICE_TYPE_ALL || (type != 0 && (type & ~all) == 0);
}

/// All platforms. A loader without platforms returns an error.
[[nodiscard]] inline std::vector<cl_platform_id> all_platforms() {
    cl_uint count = 0;
    if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
    std::vector<cl_platform_id> platforms(count);
    if (count != 0) check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    return platforms;
}

/// The devices of a context. Empty if the query fails.
[[nodiscard]] inline std::vector<cl_device_id> devices_of(cl_context context) {
    return query_list<cl_device_id>(context, CL_CONTEXT_DEVICES);
}

/// The device of an event's queue. Null for a user event.
[[nodiscard]] inline cl_device_id device_of(cl_event event) {
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    return queue == nullptr ? nullptr
                            : query<cl_device_id>(queue, CL_QUEUE_DEVICE).value_or(nullptr);
}

/// Returns the buffer of a sub-buffer. Null for other memory objects.
[[nodiscard]] inline cl_mem parent_of(cl_mem buffer) {
    return query<cl_mem>(buffer, CL_MEM_ASSOCIATED_MEMOBJECT).value_or(nullptr);
}

/// Returns the buffer of a sub-buffer, and the sub-buffer's offset in it in bytes. Returns other
/// memory objects themselves, with offset 0.
[[nodiscard]] inline std::pair<cl_mem, std::size_t> root_buffer_of(cl_mem buffer) {
    const cl_mem parent = parent_of(buffer);
    if (parent == nullptr) return {buffer, 0};
    return {parent, query<std::size_t>(buffer, CL_MEM_OFFSET).value_or(0)};
}

[[nodiscard]] inline bool is_cpu(cl_device_id device) {
    return (query<cl_device_type>(device, CL_DEVICE_TYPE).value_or(0) & CL_DEVICE_TYPE_CPU) != 0;
}

[[nodiscard]] inline bool is_pocl(cl_device_id device) {
    const auto platform = query<cl_platform_id>(device, CL_DEVICE_PLATFORM).value_or(nullptr);
    return query_string(platform, CL_PLATFORM_NAME) == "Portable Computing Language";
}

}  // namespace cldist
