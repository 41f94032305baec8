#pragma once

#include <string>

#include "splitting/description.hpp"

namespace cldist::splitting {

/// Derives what the kernels of an OpenCL program access, given the options of clBuildProgram: loads libcldist-analysis, which
/// runs the system's clang. Takes a tenth of a second or more. Throws std::runtime_error with the reason if it can't. Thread-safe.
Descriptions derive(const std::string &source, const std::string &options);

}  // namespace cldist::splitting
