#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// Returns the platforms of this host's drivers. The drivers are opened directly, because the
/// OpenCL loader knows only the cluster platform. The loader's functions accept their objects.
/// `places` is a colon-separated list of folders with .icd files, of .icd files and of libraries.
/// Entries that cannot be opened are logged and skipped.
std::vector<cl_platform_id> open_native_icds(std::string_view places);

/// Returns the libraries in `places`, in this order. A folder's .icd files are sorted.
std::vector<std::string> native_libraries(std::string_view places);

}  // namespace cldist::cluster
