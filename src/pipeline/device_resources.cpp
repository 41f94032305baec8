#include "pipeline/device_resources.hpp"

#include <utility>

#include "base/config.hpp"
#include "base/idle_cache.hpp"
#include "events/host_addresses.hpp"
#include "ocl/query.hpp"
#include "pipeline/profile_file.hpp"

namespace cldist {
namespace {

using Key = std::pair<cl_context, cl_device_id>;

IdleCache<Key, DeviceResources> &all_resources() {
    // Never destroyed: at exit the OpenCL platform may be gone before.
    static auto &instance = *new IdleCache<Key, DeviceResources>;
    return instance;
}

Queue make_queue(cl_context context, cl_device_id device) {
    cl_int code = CL_SUCCESS;
    // The 1.2 call: every platform has it.
    Queue queue = Queue::adopt(clCreateCommandQueue(context, device, 0, &code));
    check(code, "clCreateCommandQueue");
    return queue;
}

// See QueueInfo::placeholder.
Mem make_placeholder(cl_context context, cl_device_id device) {
    if (!is_pocl(device)) return {};
    cl_int code = CL_SUCCESS;
    Mem buffer = Mem::adopt(clCreateBuffer(context, CL_MEM_READ_WRITE, 64, nullptr, &code));
    check(code, "clCreateBuffer");
    return buffer;
}

}  // namespace

DeviceResources::DeviceResources(cl_context context, cl_device_id device)
    : read_queue_(make_queue(context, device)),
      write_queue_(make_queue(context, device)),
      placeholder_(make_placeholder(context, device)),
      staging_(std::make_shared<StagingPool>(context, write_queue_.get(), config().staging_keep.value)),
      scratch_(std::make_shared<ScratchPool>(context, config().staging_keep.value)),
      host_memory_(query<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY).value_or(CL_FALSE) == CL_TRUE),
      processor_(is_processor(device)),
      addresses_last_(HostAddresses::last(context)),
      advice_(find_advice(device)) {}

RectKernels &DeviceResources::rect_kernels() {
    std::call_once(rect_kernels_once_, [&] {
        const auto context = query<cl_context>(read_queue(), CL_QUEUE_CONTEXT).value_or(nullptr);
        const auto device = query<cl_device_id>(read_queue(), CL_QUEUE_DEVICE).value_or(nullptr);
        rect_kernels_ = std::make_unique<RectKernels>(context, device);
    });
    return *rect_kernels_;
}

std::shared_ptr<DeviceResources> DeviceResources::of(cl_context context, cl_device_id device) {
    return all_resources().get({context, device}, [&] { return std::make_shared<DeviceResources>(context, device); });
}

void DeviceResources::release_idle(double idle_seconds) { all_resources().release_idle(idle_seconds); }

}  // namespace cldist
