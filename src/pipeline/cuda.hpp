#pragma once

#include <array>
#include <cstddef>

#include "pipeline/descriptor.hpp"

namespace cldist::cuda {

using Uuid = std::array<unsigned char, 16>;

/// Returns true if CUDA's driver library is available and knows the device.
bool knows(const Uuid &device);
/// Allocates device memory and returns a descriptor, which keeps the memory alive. `size` is
/// rounded up to the device's granularity. Throws an Error.
Descriptor allocate(const Uuid &device, std::size_t &size);
/// The same for host memory, which devices that import it read and write in place.
Descriptor allocate_host(std::size_t &size);
/// Maps host memory of a descriptor from allocate_host(), also of another process, until the end of
/// the process. Throws an Error.
std::byte *map_host(const Descriptor &descriptor, std::size_t size);

}  // namespace cldist::cuda
