#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <CL/cl.h>

namespace cldist {

/// What tells one device of a host from another, in every process that sees it.
using DeviceIdentity = std::string;

/// By UUID or bus address; where the device has neither, two of one name have the same.
[[nodiscard]] DeviceIdentity identity_of(cl_device_id device);

/// Numbers equal identities of one process's list: two devices of one list are never the same device.
void number_equal(std::vector<DeviceIdentity> &list);

/// For each process of a host, in the order of its ranks, the position in its list: the device that the fewest processes
/// before it took, of several the first. Where all lists are equal that is round robin. Nothing for an empty list.
std::vector<std::optional<std::size_t>> choose_devices(const std::vector<std::vector<DeviceIdentity>> &lists);

/// The processes that took the device that `process` took, itself among them; none if it took none.
std::vector<std::size_t> processes_sharing(const std::vector<std::vector<DeviceIdentity>> &lists,
                                           const std::vector<std::optional<std::size_t>> &chosen, std::size_t process);

}  // namespace cldist
