#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/profile.hpp"

// What is measured. All pure.
namespace cldist::tool {

/// Messages and pieces of files are measured in these sizes, up to `largest`.
[[nodiscard]] std::vector<std::size_t> sizes_of(Route route, std::size_t largest);

/// In these ways. `host_memory`: the devices' memory is the hosts'.
[[nodiscard]] std::vector<Way> ways_of(Route route, bool host_memory);

/// Whether a way is worth measuring for `size` bytes: it is for them, and has not too many blocks.
[[nodiscard]] bool is_measured(const Way &way, std::size_t size);

/// What two ways have in common that do the same with `size` bytes: then one of them is measured.
[[nodiscard]] Way as_done(const Way &way, std::size_t size);

}  // namespace cldist::tool
