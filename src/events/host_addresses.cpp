#include "events/host_addresses.hpp"

#include <algorithm>
#include <vector>

#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist {
namespace {

bool addresses_persist(cl_device_id device) {
    constexpr cl_device_svm_capabilities shared = CL_DEVICE_SVM_FINE_GRAIN_BUFFER;
    return quirks_of(device).keeps_addresses &&
           (query<cl_device_svm_capabilities>(device, CL_DEVICE_SVM_CAPABILITIES).value_or(0) &
            shared) != 0;
}

}  // namespace

bool HostAddresses::persist(cl_context context) {
    const std::vector<cl_device_id> devices = devices_of(context);
    // If one device has its own memory, a buffer can move.
    return !devices.empty() && std::all_of(devices.begin(), devices.end(), addresses_persist);
}

std::byte *HostAddresses::find(cl_mem buffer) const {
    const std::lock_guard lock(mutex_);
    const auto at = of_buffer_.find(buffer);
    return at == of_buffer_.end() ? nullptr : at->second;
}

void HostAddresses::learn(cl_mem buffer, std::byte *address) {
    {
        const std::lock_guard lock(mutex_);
        if (!of_buffer_.emplace(buffer, address).second) return;
    }
    // Without the lock, which on_destroyed() takes.
    if (clSetMemObjectDestructorCallback(buffer, on_destroyed, this) != CL_SUCCESS)
        on_destroyed(buffer, this);
}

std::byte *HostAddresses::find_or_map(cl_command_queue queue, cl_mem buffer, cl_map_flags flags) {
    if (std::byte *const known = find(buffer)) return known;
    cl_int code = CL_SUCCESS;
    void *const mapped =
        clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags, 0, 1, 0, nullptr, nullptr, &code);
    if (code != CL_SUCCESS) return nullptr;
    clEnqueueUnmapMemObject(queue, buffer, mapped, 0, nullptr, nullptr);
    learn(buffer, static_cast<std::byte *>(mapped));
    return find(buffer);
}

void CL_CALLBACK HostAddresses::on_destroyed(cl_mem buffer, void *data) {
    auto &self = *static_cast<HostAddresses *>(data);
    const std::lock_guard lock(self.mutex_);
    self.of_buffer_.erase(buffer);
}

HostAddresses &host_addresses() {
    // Never destroyed, because buffers may be destroyed at exit.
    static auto &instance = *new HostAddresses;
    return instance;
}

}  // namespace cldist
