/// The functions of the platform, by family; dispatch.cpp makes the table of them.
#pragma once

#include <type_traits>

#include <CL/cl_icd.h>

namespace cldist::cluster {

#define CLDIST_ENTRY(function, name) std::remove_pointer_t<decltype(cl_icd_dispatch::function)> name;
#include "cluster/entry_points.def"
#undef CLDIST_ENTRY

}  // namespace cldist::cluster
