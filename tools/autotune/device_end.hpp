#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ocl/handle.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/profile.hpp"

namespace cldist::tool {

/// The device that a process measures. If `wanted` is "cpu", "gpu" or empty (a GPU if there is one,
/// otherwise any device), the process's number on its host selects one of these devices. If
/// `wanted` is a number, it is the index among all devices. Throws a TuneError without such device.
[[nodiscard]] cl_device_id choose_device(const std::string &wanted, int number_on_host);
/// Whether choose_device accepts the text.
[[nodiscard]] bool names_device(const std::string &text);

/// Two buffers of a device: one contains a pattern to send, the other receives. Throws an Error.
class DeviceEnd {
public:
    /// The buffers have `largest` bytes, or as many as fit.
    DeviceEnd(cl_device_id device, std::size_t largest);

    [[nodiscard]] cl_device_id device() const { return device_; }
    [[nodiscard]] cl_command_queue queue() const { return queue_.get(); }
    [[nodiscard]] cl_mem out() const { return out_.get(); }
    [[nodiscard]] cl_mem in() const { return in_.get(); }
    [[nodiscard]] std::size_t largest() const { return pattern_.size(); }
    [[nodiscard]] const std::vector<std::byte> &pattern() const { return pattern_; }
    [[nodiscard]] bool host_memory() const { return resources_->host_memory(); }

    /// Makes the library use this way for all transfers on this route.
    void take_way(Route route, const Way &way) const;
    /// Overwrites the first bytes of in().
    void clear_in(std::size_t size) const;
    /// Whether in() begins with `size` bytes of the pattern.
    [[nodiscard]] bool pattern_is_in(std::size_t size) const;

    /// The times of copies between the device and page-locked host memory, for several sizes.
    [[nodiscard]] std::vector<Curve::Point> copies(bool to_host) const;

private:
    cl_device_id device_;
    Context context_;
    Queue queue_;
    std::vector<std::byte> pattern_;
    Mem out_;
    Mem in_;
    std::shared_ptr<DeviceResources> resources_;
};

/// Waits for a command, checks its status, and releases its event.
void finish(cl_event event, const char *what);

/// The clock of all measurements, in seconds.
[[nodiscard]] double now_seconds();

}  // namespace cldist::tool
