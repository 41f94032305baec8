/// The limits of a kernel on a device.
#pragma once

#include "cluster/objects/program.hpp"

namespace cldist::cluster {

/// Throws an Error if the device does not belong to the kernel's program.
OnDevice limits_on_device(const KernelObject &kernel, const DeviceObject &device);

}  // namespace cldist::cluster
