#pragma once

#include <CL/cl.h>

namespace cldist::cluster {

/// Implements clGetPlatformIDs and clIcdGetPlatformIDsKHR. Returns CL_PLATFORM_NOT_FOUND_KHR if
/// this process is not part of a job (World::is_wanted()).
cl_int CL_API_CALL get_platform_ids(cl_uint num_entries, cl_platform_id *platforms,
                                    cl_uint *num_platforms);

/// Returns the OpenCL function or extension function with that name, or null.
void *function_address(const char *name);

}  // namespace cldist::cluster
