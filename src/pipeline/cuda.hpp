#pragma once

#include <array>
#include <cstddef>

#include "pipeline/descriptor.hpp"

namespace cldist::cuda {

using Uuid = std::array<unsigned char, 16>;

/// Whether CUDA's driver library is there and knows the device.
bool knows(const Uuid &device);
/// Memory of the device as a descriptor, which keeps it; `size` becomes a multiple of what the device allocates. Throws an
/// Error.
Descriptor allocate(const Uuid &device, std::size_t &size);

}  // namespace cldist::cuda
