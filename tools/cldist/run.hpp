#pragma once

#include "run_plan.hpp"

namespace cldist::tool {

/// `cldist run`: starts the ranks with mpirun. Gives the exit status.
int run_job(RunOptions options);

/// `cldist devices`: the same with a program that lists what each rank gets.
int run_devices(RunOptions options);

/// What mpirun starts: one rank. Gives the exit status, or ends by the signal by which the program ended.
int run_rank(const RunOptions &options);

/// `cldist worker`: what the other ranks run where rank 0 alone runs the program. Follows its calls until it has ended.
int run_worker();

}  // namespace cldist::tool
