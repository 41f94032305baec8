// CL/cl_ext_attach.h: forwards calls to platforms that provide it; otherwise only checks arguments.

#include <algorithm>
#include <vector>

#include <CL/cl_ext_attach.h>

#include "collectives/boundary.hpp"
#include "ocl/query.hpp"

using namespace cldist;

namespace {

std::vector<cl_device_id> devices_of(cl_mem buffer) {
    const auto context = query<cl_context>(buffer, CL_MEM_CONTEXT).value_or(nullptr);
    return cldist::devices_of(context);
}

void check_buffer(cl_mem buffer) {
    if (buffer == nullptr || query<cl_mem_object_type>(buffer, CL_MEM_TYPE) != CL_MEM_OBJECT_BUFFER)
        throw Error(CL_INVALID_MEM_OBJECT, "the memory object is not a valid buffer");
    if (parent_of(buffer) != nullptr)
        throw Error(CL_INVALID_MEM_OBJECT,
                    "the buffer is a sub-buffer; bind its parent buffer instead");
}

}  // namespace

extern "C" {

cl_int clAttachBufferToDevice(cl_mem buffer, cl_device_id device) {
    return collectives::at_boundary(__func__, [&] {
        check_buffer(buffer);
        const auto devices = devices_of(buffer);
        if (std::ranges::find(devices, device) == devices.end())
            throw Error(CL_INVALID_DEVICE, "the device does not belong to the buffer's context");
        const auto attach =
            collectives::function_of<clAttachBufferToDevice_fn>(device, "clAttachBufferToDevice");
        if (attach != nullptr) check(attach(buffer, device), "the platform's function");
    });
}

cl_int clDetachBuffer(cl_mem buffer) {
    return collectives::at_boundary(__func__, [&] {
        check_buffer(buffer);
        const auto devices = devices_of(buffer);
        const auto detach = devices.empty() ? nullptr
                                            : collectives::function_of<clDetachBuffer_fn>(
                                                  devices.front(), "clDetachBuffer");
        if (detach != nullptr) check(detach(buffer), "the platform's function");
    });
}

}  // extern "C"
