/// Properties of programs: from their source, and from the answers of native programs.
#pragma once

#include <string>
#include <vector>

#include "cluster/objects/program.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {

/// The answer of the native program of the first device that the program was built for.
const Blob &info_of(const Exchange &exchange, const ProgramObject &program, cl_program_info param);

/// The native devices in a space that answer for the devices.
std::vector<cl_device_id> natives_in(const Space &space, const DeviceList &devices);

/// The program's source with all files that it includes.
std::string whole_source(const ProgramObject &program, const std::string &options);

}  // namespace cldist::cluster
