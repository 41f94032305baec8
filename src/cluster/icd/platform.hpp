#pragma once

#include <CL/cl.h>

namespace cldist::cluster {

/// clGetPlatformIDs and clIcdGetPlatformIDsKHR: the platform, where this process is one of a job.
cl_int CL_API_CALL get_platform_ids(cl_uint num_entries, cl_platform_id *platforms,
                                    cl_uint *num_platforms);

/// The function of that name, or null.
void *function_address(const char *name);

}  // namespace cldist::cluster
