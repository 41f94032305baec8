#pragma once

#include <string>
#include <vector>

namespace cldist::tool {

/// Prints the derived accesses of each kernel of an OpenCL program. Returns the exit status.
int run_explain(const std::string &program, const std::vector<std::string> &options);

}  // namespace cldist::tool
