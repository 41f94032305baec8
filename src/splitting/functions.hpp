#pragma once

#include <memory>

#include "splitting/access.hpp"

namespace cldist::splitting {

/// The model of a kernel with access functions. Neither may be null.
std::unique_ptr<AccessModel> model_from_functions(MetaFunction is_read, MetaFunction is_written);

}  // namespace cldist::splitting
