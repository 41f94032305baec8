#pragma once

#include "run_plan.hpp"

namespace cldist::tool {

/// `cldist run`: starts the ranks with mpirun. Returns the exit status.
int run_job(RunOptions options);

/// `cldist devices`: the same with a program that lists each rank's devices.
int run_devices(RunOptions options);

/// One rank, started by mpirun. Returns the exit status, or ends with the signal that ended the
/// program.
int run_rank(const RunOptions &options);

/// `cldist worker`: the program of the other ranks with a central host. Executes the central host's
/// calls until its program has ended.
int run_worker();

}  // namespace cldist::tool
