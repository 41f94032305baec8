#include "api/traced_kernels.hpp"

#include <bit>
#include <string>

#include <CL/cl_ext_file.h>

#include "base/trace.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

std::string name_of(cl_kernel kernel) {
    const std::string name = query_string(kernel, CL_KERNEL_FUNCTION_NAME);
    return name.empty() ? "kernel" : name;
}

template <typename Launch>
cl_int traced(cl_command_queue queue, cl_kernel kernel, cl_event *event, Launch &&launch) {
    const auto properties =
        query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES).value_or(0);
    if (!trace::enabled() || (properties & CL_QUEUE_PROFILING_ENABLE) == 0) return launch(event);
    cl_event own = nullptr;
    cl_event *const used = event != nullptr ? event : &own;
    const cl_int code = launch(used);
    if (code == CL_SUCCESS) clTraceEvent(*used, name_of(kernel).c_str());
    if (own != nullptr) clReleaseEvent(own);
    return code;
}

cl_int CL_API_CALL traced_range(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                const std::size_t *offset, const std::size_t *global,
                                const std::size_t *local, cl_uint count, const cl_event *wait_list,
                                cl_event *event) {
    return traced(queue, kernel, event, [&](cl_event *used) {
        return clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, count,
                                      wait_list, used);
    });
}

cl_int CL_API_CALL traced_task(cl_command_queue queue, cl_kernel kernel, cl_uint count,
                               const cl_event *wait_list, cl_event *event) {
    return traced(queue, kernel, event, [&](cl_event *used) {
        return clEnqueueTask(queue, kernel, count, wait_list, used);
    });
}

}  // namespace

void *traced_launch(std::string_view name) {
    if (name == "clEnqueueNDRangeKernel") return std::bit_cast<void *>(&traced_range);
    if (name == "clEnqueueTask") return std::bit_cast<void *>(&traced_task);
    return nullptr;
}

}  // namespace cldist
