#pragma once

#include <CL/cl.h>

namespace cldist::cluster {

/// Executes a central host's calls in this process (a worker) until the program has ended. In rank
/// 0 it returns CL_SUCCESS at once, and the job ends as after a program without OpenCL commands.
/// Returns CL_INVALID_OPERATION if this process does not follow a central host, and
/// CL_OUT_OF_RESOURCES after an error. `cldist worker` gets the function as "cldistFollowHost" from
/// clGetExtensionFunctionAddressForPlatform().
cl_int CL_API_CALL follow_host();

}  // namespace cldist::cluster
