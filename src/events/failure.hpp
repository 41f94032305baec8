#pragma once

#include <atomic>
#include <string>

#include <CL/cl.h>

namespace cldist {

/// Applies CLDIST_ON_ERROR when a command of `device` is about to fail. It does nothing, or it
/// prints `account` and ends the job with MPI_Abort.
void failure_policy(cl_device_id device, const std::string &account);

/// Prints the account of a failed command and why this ends the job, and ends the job with
/// MPI_Abort.
[[noreturn]] void end_job(const std::string &account, const char *why);

/// If set, it is called before the job is ended. A caller that knows the cause better may end the
/// job first. Any thread.
extern std::atomic<void (*)()> before_ending_job;

}  // namespace cldist
