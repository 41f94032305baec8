#include <algorithm>
#include <vector>

#include <CL/cl_ext_dist.h>

#include "api/boundary.hpp"
#include "base/config.hpp"
#include "ocl/query.hpp"
#include "pipeline/exported_memory.hpp"

using namespace cldist;

namespace {

Mem make_buffer(cl_context context, cl_device_id device, cl_mem_flags flags, std::size_t size) {
    const std::vector<cl_device_id> devices = devices_of(context);
    if (devices.empty()) throw Error(CL_INVALID_CONTEXT, "the context is not valid");
    if (std::find(devices.begin(), devices.end(), device) == devices.end())
        throw Error(CL_INVALID_DEVICE, "the device does not belong to the context");
    if ((flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0)
        throw Error(CL_INVALID_VALUE,
                    "flags contains a host pointer flag, which an exportable buffer cannot have");
    if (size != 0 && ExportedMemory::possible(device, config().path == Path::peer_to_peer)) {
        try {
            return ExportedMemory::create_buffer(context, device, flags, size);
        } catch (const Error &error) {
            log_info(
                "the platform cannot share the buffer's memory, so it is an ordinary buffer: {}",
                error.status().message);
        }
    }
    return create("clCreateBuffer", clCreateBuffer, context, flags, size, nullptr);
}

}  // namespace

extern "C" cl_mem clCreateBufferExportable(cl_context context, cl_device_id device,
                                           cl_mem_flags flags, size_t size, cl_int *errcode_ret) {
    Mem buffer;
    const cl_int code = at_boundary("clCreateBufferExportable",
                                    [&] { buffer = make_buffer(context, device, flags, size); });
    if (errcode_ret != nullptr) *errcode_ret = code;
    return buffer.give();
}
