#pragma once

#include <CL/cl.h>

namespace cldist::cluster {

/// Makes the calls of a central host in this process, which is another one of its job, until the
/// program has ended. In the host's own process there are none: it ends the job as a program would
/// that does nothing else. `cldist worker` gets it as "cldistFollowHost" from
/// clGetExtensionFunctionAddressForPlatform(). Returns CL_INVALID_OPERATION if the process is none
/// that follows.
cl_int CL_API_CALL follow_host();

}  // namespace cldist::cluster
