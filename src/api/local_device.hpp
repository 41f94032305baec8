#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <CL/cl.h>

namespace cldist {

/// Identifies a device of a host. Every process that sees the device computes the same identity.
using DeviceIdentity = std::string;

/// Uses UUID or bus address. Without them, devices with equal names have equal identities.
[[nodiscard]] DeviceIdentity identity_of(cl_device_id device);

/// Appends numbers to the identities in one process's list, because its devices always differ even
/// if their identities are equal.
void number_equal(std::vector<DeviceIdentity> &list);

/// Chooses a device for each process of a host, in the order of the ranks: the first device in its
/// list that the fewest earlier processes took. Equal lists give round robin. Returns positions in
/// the lists, and nothing for an empty list.
std::vector<std::optional<std::size_t>> choose_devices(
    const std::vector<std::vector<DeviceIdentity>> &lists);

/// The processes that took the same device as `process`, including itself. Empty if it took none.
std::vector<std::size_t> processes_sharing(const std::vector<std::vector<DeviceIdentity>> &lists,
                                           const std::vector<std::optional<std::size_t>> &chosen,
                                           std::size_t process);

}  // namespace cldist
