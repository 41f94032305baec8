#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ocl/handle.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/profile.hpp"

namespace cldist::tool {

/// The device that a process measures with: "cpu", "gpu" or, if `wanted` is empty, a GPU if there is one, else any: of these
/// the one with the number of the process among those of its host. Or a number: that one of all devices. Throws a TuneError
/// if there is none.
[[nodiscard]] cl_device_id choose_device(const std::string &wanted, int number_on_host);
/// Whether choose_device understands it.
[[nodiscard]] bool names_device(const std::string &text);

/// Two buffers of a device: one with a pattern, to be sent, the other to be received into. Calls throw an Error.
class DeviceEnd {
public:
    /// The buffers have `largest` bytes, or what fits.
    DeviceEnd(cl_device_id device, std::size_t largest);

    [[nodiscard]] cl_device_id device() const { return device_; }
    [[nodiscard]] cl_command_queue queue() const { return queue_.get(); }
    [[nodiscard]] cl_mem out() const { return out_.get(); }
    [[nodiscard]] cl_mem in() const { return in_.get(); }
    [[nodiscard]] std::size_t largest() const { return pattern_.size(); }
    [[nodiscard]] const std::vector<std::byte> &pattern() const { return pattern_; }
    [[nodiscard]] bool host_memory() const { return resources_->host_memory(); }

    /// The library does all on this route in this way from now on.
    void take_way(Route route, const Way &way) const;
    /// Overwrites the first bytes of in().
    void clear_in(std::size_t size) const;
    /// Whether in() begins with so many bytes of the pattern.
    [[nodiscard]] bool pattern_is_in(std::size_t size) const;

    /// Copies between the device and page-locked host memory, for some sizes: how long they took.
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

/// Waits for a command, checks how it ended, and releases its event.
void finish(cl_event event, const char *what);

/// Seconds of the clock of all measurements.
[[nodiscard]] double now_seconds();

}  // namespace cldist::tool
