// CL/cl_ext_split.h: forwards calls to platforms that provide it; otherwise only checks arguments.

#include <vector>

#include <CL/cl_ext_split.h>

#include "collectives/boundary.hpp"
#include "ocl/query.hpp"

using namespace cldist;

extern "C" {

cl_int clSetKernelAccessFunctions(cl_kernel kernel, cl_access_function is_read,
                                  cl_access_function is_written) {
    return collectives::at_boundary(__func__, [&] {
        cl_context context = nullptr;
        if (kernel == nullptr || clGetKernelInfo(kernel, CL_KERNEL_CONTEXT, sizeof context,
                                                 &context, nullptr) != CL_SUCCESS)
            throw Error(CL_INVALID_KERNEL, "the kernel is not valid");
        if ((is_read == nullptr) != (is_written == nullptr))
            throw Error(CL_INVALID_VALUE,
                        "exactly one of the functions is NULL; set both, or pass NULL for both");
        std::vector<cl_device_id> devices(
            query<cl_uint>(context, CL_CONTEXT_NUM_DEVICES).value_or(0));
        if (devices.empty() ||
            clGetContextInfo(context, CL_CONTEXT_DEVICES, devices.size() * sizeof(cl_device_id),
                             devices.data(), nullptr) != CL_SUCCESS)
            throw Error(CL_INVALID_KERNEL, "the kernel's context has no devices");
        const auto platform =
            query<cl_platform_id>(devices.front(), CL_DEVICE_PLATFORM).value_or(nullptr);
        const auto set = reinterpret_cast<clSetKernelAccessFunctions_fn>(
            clGetExtensionFunctionAddressForPlatform(platform, "clSetKernelAccessFunctions"));
        if (set != nullptr) check(set(kernel, is_read, is_written), "the platform's function");
    });
}

}  // extern "C"
