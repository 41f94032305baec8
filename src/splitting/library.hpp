#pragma once

#include <string>

#include "splitting/description.hpp"

namespace cldist::splitting {

/// Derives the accesses of the kernels of an OpenCL program. `options` are the options of
/// clBuildProgram. The first call loads libcldist-analysis. Each call runs the system's clang and
/// takes at least a tenth of a second. Throws std::runtime_error with the reason. Thread-safe.
Descriptions derive(const std::string &source, const std::string &options);

}  // namespace cldist::splitting
