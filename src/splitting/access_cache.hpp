#pragma once

#include <cstddef>
#include <memory>

#include "splitting/access.hpp"

namespace cldist::splitting {

/// The same model, with the answers that were asked for last, for at most `most` of launches, parts and arguments.
std::unique_ptr<AccessModel> cached(std::unique_ptr<AccessModel> model, std::size_t most);

}  // namespace cldist::splitting
