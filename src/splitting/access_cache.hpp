#pragma once

#include <cstddef>
#include <memory>

#include "splitting/access.hpp"

namespace cldist::splitting {

/// Wraps `model` and caches the most recent results. It caches at most `most` combinations of
/// launch, sub-range and arguments.
std::unique_ptr<AccessModel> cached(std::unique_ptr<AccessModel> model, std::size_t most);

}  // namespace cldist::splitting
