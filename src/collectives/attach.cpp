// CL/cl_ext_attach.h: forwards calls to platforms that provide it; otherwise only checks arguments.

#include <algorithm>
#include <vector>

#include <CL/cl_ext_attach.h>

#include "base/log.hpp"
#include "ocl/query.hpp"

using namespace cldist;

namespace {

cl_int refused(const char *call, cl_int code, const char *why) {
    log_warning("{}: {}", call, why);
    return code;
}

std::vector<cl_device_id> devices_of(cl_mem buffer) {
    const auto context = query<cl_context>(buffer, CL_MEM_CONTEXT);
    const auto count = context ? query<cl_uint>(*context, CL_CONTEXT_NUM_DEVICES) : std::nullopt;
    std::vector<cl_device_id> devices(count.value_or(0));
    if (devices.empty() ||
        clGetContextInfo(*context, CL_CONTEXT_DEVICES, devices.size() * sizeof(cl_device_id),
                         devices.data(), nullptr) != CL_SUCCESS)
        return {};
    return devices;
}

template <typename Function>
Function function_of(cl_device_id device, const char *name) {
    const auto platform = query<cl_platform_id>(device, CL_DEVICE_PLATFORM).value_or(nullptr);
    return reinterpret_cast<Function>(clGetExtensionFunctionAddressForPlatform(platform, name));
}

cl_int check_buffer(const char *call, cl_mem buffer) {
    if (buffer == nullptr || query<cl_mem_object_type>(buffer, CL_MEM_TYPE) != CL_MEM_OBJECT_BUFFER)
        return refused(call, CL_INVALID_MEM_OBJECT, "the memory object is not a valid buffer");
    if (parent_of(buffer) != nullptr)
        return refused(call, CL_INVALID_MEM_OBJECT,
                       "the buffer is a sub-buffer; bind its parent buffer instead");
    return CL_SUCCESS;
}

}  // namespace

extern "C" {

cl_int clAttachBufferToDevice(cl_mem buffer, cl_device_id device) {
    if (const cl_int code = check_buffer(__func__, buffer); code != CL_SUCCESS) return code;
    const auto devices = devices_of(buffer);
    if (std::find(devices.begin(), devices.end(), device) == devices.end())
        return refused(__func__, CL_INVALID_DEVICE,
                       "the device does not belong to the buffer's context");
    const auto attach = function_of<clAttachBufferToDevice_fn>(device, __func__);
    return attach != nullptr ? attach(buffer, device) : CL_SUCCESS;
}

cl_int clDetachBuffer(cl_mem buffer) {
    if (const cl_int code = check_buffer(__func__, buffer); code != CL_SUCCESS) return code;
    const auto devices = devices_of(buffer);
    const auto detach =
        devices.empty() ? nullptr : function_of<clDetachBuffer_fn>(devices.front(), __func__);
    return detach != nullptr ? detach(buffer) : CL_SUCCESS;
}

}  // extern "C"
