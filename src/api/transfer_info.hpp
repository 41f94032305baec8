#pragma once

#include <cstddef>

#include <CL/cl_ext_file.h>

namespace cldist {

/// The bodies of clGetTransferInfo and clTraceEvent. They throw an Error.
void get_transfer_info(cl_event event, cl_transfer_info name, std::size_t size, void *value,
                       std::size_t *size_ret);
void trace_event(cl_event event, const char *name);

}  // namespace cldist
