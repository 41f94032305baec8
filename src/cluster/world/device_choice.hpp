#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// An element of CLDIST_DEVICES.
struct DeviceChoice {
    cl_device_type type;
    std::size_t most;  ///< the most devices of this type in a process
};

/// Parses CLDIST_DEVICES: `all`, `gpu`, `cpu` and `accelerator`, each with an optional count
/// (`gpu:2`), separated by commas. Throws an Error that lists the valid values.
std::vector<DeviceChoice> parse_device_choice(const std::string &text);

/// Returns the range [first, second) of a host's `count` devices that belongs to process `number`
/// of the host's `processes`: its share, or one device that it shares with other processes.
std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t number,
                                             std::size_t processes);

/// Returns all devices of a platform, or none after an error.
std::vector<cl_device_id> devices_of(cl_platform_id platform);

/// Returns CL_DEVICE_TYPE, or 0 after an error.
cl_device_type type_of(cl_device_id device);

/// Returns the devices that process `number` of the host's `processes` brings into the cluster
/// platform: a list for each native platform that contributes a device. CPU devices belong to every
/// process. All other devices are distributed among the processes. `choice` is the value of
/// CLDIST_DEVICES, which may be "auto". Throws an Error.
std::vector<std::vector<cl_device_id>> choose_devices(const std::vector<cl_platform_id> &platforms,
                                                      const std::string &choice, std::size_t number,
                                                      std::size_t processes);

}  // namespace cldist::cluster
