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

/// What CLDIST_DEVICES says: `all`, or types (`gpu`, `cpu`, `accelerator`) with an optional count (`gpu:2`), separated by
/// commas. Throws an Error.
std::vector<DeviceChoice> parse_device_choice(const std::string &text);

/// Which of `count` GPUs or other devices of a host belong to the process `number` of the `processes` there: its share, or
/// one that it shares with others.
std::pair<std::size_t, std::size_t> share_of(std::size_t count, std::size_t number, std::size_t processes);

}  // namespace cldist::cluster
