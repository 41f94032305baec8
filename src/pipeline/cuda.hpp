#pragma once

#include <array>
#include <cstddef>

#include "pipeline/descriptor.hpp"

namespace cldist::cuda {

using Uuid = std::array<unsigned char, 16>;

/// Returns true if CUDA's driver library is available and knows the device.
bool knows(const Uuid &device);
/// Allocates device memory and returns a POSIX descriptor, which keeps the memory alive. Rounds
/// `size` up to the device's granularity. Throws an Error.
Descriptor allocate(const Uuid &device, std::size_t &size);
/// The same for host memory. Devices that import it access it in place.
Descriptor allocate_host(std::size_t &size);
/// Maps host memory from allocate_host(), also of another process. It stays mapped until the end of
/// the process. Throws an Error.
std::byte *map_host(const Descriptor &descriptor, std::size_t size);

}  // namespace cldist::cuda
