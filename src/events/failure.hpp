#pragma once

#include <atomic>
#include <string>

#include <CL/cl.h>

namespace cldist {

/// Applies CLDIST_ON_ERROR when a command of `device` is about to fail: logs `account` and returns,
/// or ends the job with end_job().
void failure_policy(cl_device_id device, const std::string &account);

/// Prints `account`, which describes a failed command, and `why` this ends the job. Then ends the
/// job with MPI_Abort. Without MPI, or if a stream is blocked, the process exits with status 1.
[[noreturn]] void end_job(const std::string &account, const char *why);

/// If set, end_job() calls it before it ends the job. It may delay the end until another thread has
/// reported the cause. Any thread.
extern std::atomic<void (*)()> before_ending_job;

}  // namespace cldist
