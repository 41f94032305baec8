#pragma once

#include <memory>

#include "splitting/access.hpp"

namespace cldist::splitting {

/// What DistCL's meta-functions say of a kernel, neither of them null.
std::unique_ptr<AccessModel> model_from_functions(MetaFunction is_read, MetaFunction is_written);

}  // namespace cldist::splitting
