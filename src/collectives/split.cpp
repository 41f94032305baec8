// CL/cl_ext_split.h: forwards calls to platforms that provide it; otherwise only checks arguments.

#include <CL/cl_ext_split.h>

#include "collectives/boundary.hpp"

using namespace cldist;

extern "C" {

cl_int clSetKernelAccessFunctions(cl_kernel kernel, cl_access_function is_read,
                                  cl_access_function is_written) {
    return collectives::at_boundary(__func__, [&] {
        const auto context =
            kernel != nullptr ? query<cl_context>(kernel, CL_KERNEL_CONTEXT) : std::nullopt;
        if (!context) throw Error(CL_INVALID_KERNEL, "the kernel is not valid");
        if ((is_read == nullptr) != (is_written == nullptr))
            throw Error(CL_INVALID_VALUE,
                        "exactly one of the functions is NULL; set both, or pass NULL for both");
        const auto devices = devices_of(*context);
        if (devices.empty()) throw Error(CL_INVALID_KERNEL, "the kernel's context has no devices");
        const auto set = collectives::function_of<clSetKernelAccessFunctions_fn>(
            devices.front(), "clSetKernelAccessFunctions");
        if (set != nullptr) check(set(kernel, is_read, is_written), "the platform's function");
    });
}

}  // extern "C"
