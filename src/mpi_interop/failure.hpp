#pragma once

#include <string>

#include <CL/cl.h>

namespace cldist {

/// What CLDIST_ON_ERROR asks for when a command of `device` is about to get a negative status: nothing, or to print
/// `account` and end the job with MPI_Abort.
void failure_policy(cl_device_id device, const std::string &account);

}  // namespace cldist
