#pragma once

#include <string>

namespace cldist::tool {

/// Examines the system, alone or in an MPI job, and prints the findings (in an MPI job from rank
/// 0). Examines the file `program` as well unless the name is empty. Returns the exit status: 1 if
/// there is a problem, otherwise 0.
int run_doctor(bool json, const std::string &program);

}  // namespace cldist::tool
