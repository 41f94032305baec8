#pragma once

#include <string>

#include "cluster/objects/context.hpp"
#include "cluster/split/conditionals.hpp"

namespace cldist::cluster {

/// What the compiler of a native device of `space` reports, given the options of clBuildProgram.
/// Throws an Error. Waits for the device.
std::string report_of_compiler(const Space &space, cl_device_id device,
                               const Conditionals &conditionals, const std::string &options);

}  // namespace cldist::cluster
