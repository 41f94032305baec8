#pragma once

#include <string>

namespace cldist::tool {

/// Looks at the system, alone or in an MPI job, and prints what it finds, in an MPI job from rank 0. Gives the exit status: 1
/// if something will hurt, else 0. If `program`, a file, is not empty, it is examined, too.
int run_doctor(bool json, const std::string &program);

}  // namespace cldist::tool
