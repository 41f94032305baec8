#pragma once

#include <atomic>
#include <string>

#include <CL/cl.h>

namespace cldist {

/// What CLDIST_ON_ERROR asks for when a command of `device` is about to get a negative status: nothing, or to print
/// `account` and end the job with MPI_Abort.
void failure_policy(cl_device_id device, const std::string &account);

/// Called, if set, before the job is ended for that: who knows the cause better may end it first. Any thread.
extern std::atomic<void (*)()> before_ending_job;

}  // namespace cldist
