#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// A choice of devices: for each type how many, at most, a process has.
struct DeviceChoice {
    cl_device_type type;
    std::size_t most;
};

/// What CLDIST_DEVICES says: `all`, or types (`gpu`, `cpu`, `accelerator`) with an optional count
/// (`gpu:2`), separated by commas. Throws an Error that names what it can be.
std::vector<DeviceChoice> parse_device_choice(const std::string &text);

/// Which of `count` GPUs or other devices of a host belong to the process `number` of the
/// `processes` there: its share, or one device that it shares with other processes.
std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t number,
                                             std::size_t processes);

/// The devices of a platform, whatever their type; none if it can't tell.
std::vector<cl_device_id> devices_of(cl_platform_id platform);

/// CL_DEVICE_TYPE; 0 if it can't be had.
cl_device_type type_of(cl_device_id device);

/// The devices that the process `number` of the `processes` on this host brings into the cluster
/// platform, a list for each of the native `platforms` that has one of them. GPUs and the like are
/// shared out among the processes; each has the host's CPU device. `choice` is the value of
/// CLDIST_DEVICES, "auto" included. Throws an Error.
std::vector<std::vector<cl_device_id>> choose_devices(const std::vector<cl_platform_id> &platforms,
                                                      const std::string &choice, std::size_t number,
                                                      std::size_t processes);

}  // namespace cldist::cluster
