#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/profile.hpp"

// The sizes and ways to measure. All functions are pure.
namespace cldist::tool {

/// The sizes of messages and file ranges to measure, up to `largest`.
[[nodiscard]] std::vector<std::size_t> sizes_of(Route route, std::size_t largest);

/// The ways to measure. `host_memory`: device memory is host memory.
[[nodiscard]] std::vector<Way> ways_of(Route route, bool host_memory);

/// Whether a way is worth measuring for `size` bytes: it supports the size, and does not have too
/// many blocks.
[[nodiscard]] bool is_measured(const Way &way, std::size_t size);

/// A normal form: ways with equal results behave equally for `size` bytes, so only one of them is
/// measured.
[[nodiscard]] Way as_done(const Way &way, std::size_t size);

}  // namespace cldist::tool
