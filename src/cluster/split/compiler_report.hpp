#pragma once

#include <string>

#include "cluster/objects/context.hpp"
#include "cluster/split/conditionals.hpp"

namespace cldist::cluster {

/// Builds and runs conditionals.program() on a native device of `space`, and returns its report.
/// `options` are those of clBuildProgram. The result is empty if the report is too long. Throws an
/// Error. Waits for the device.
std::string report_of_compiler(const Space &space, cl_device_id device,
                               const Conditionals &conditionals, const std::string &options);

}  // namespace cldist::cluster
