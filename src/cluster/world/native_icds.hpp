#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CL/cl.h>

namespace cldist::cluster {

/// The platforms of the drivers that this host has, opened past the loader, which knows the cluster
/// platform alone. `places` is a colon-separated list of folders with .icd files, of .icd files and
/// of libraries. Entries that cannot be opened are logged and skipped. The platforms' objects work
/// with the loader's functions.
std::vector<cl_platform_id> open_native_icds(std::string_view places);

/// The libraries that `places` names, in order; a folder's by the names of its files.
std::vector<std::string> native_libraries(std::string_view places);

}  // namespace cldist::cluster
