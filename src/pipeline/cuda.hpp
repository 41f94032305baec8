#pragma once

#include <array>
#include <cstddef>

#include "pipeline/descriptor.hpp"

namespace cldist::cuda {

using Uuid = std::array<unsigned char, 16>;

/// Returns true if CUDA's driver library is available and knows the device.
bool knows(const Uuid &device);
/// Allocates device memory and returns a descriptor, which keeps the memory alive. `size` is rounded up to the device's
/// granularity. Throws an Error.
Descriptor allocate(const Uuid &device, std::size_t &size);

}  // namespace cldist::cuda
