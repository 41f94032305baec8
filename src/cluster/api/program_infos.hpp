/// Properties of programs and kernels, from their source and from native programs.
#pragma once

#include <string>
#include <vector>

#include "cluster/objects/program.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {

/// Throws an Error if the device does not belong to the kernel's program.
OnDevice limits_on_device(const KernelObject &kernel, const DeviceObject &device);

void require_built(const ProgramObject &program);

/// Returns a property of the native program of the first device with a build. Collective.
const Blob &info_of(const Exchange &exchange, const ProgramObject &program, cl_program_info param);

/// Returns the native devices of a space that answer for `devices` (DeviceObject::answering).
std::vector<cl_device_id> natives_in(const Space &space, const DeviceList &devices);

/// Returns the program's source with the included files that are found through -I folders.
std::string whole_source(const ProgramObject &program, const std::string &options);

}  // namespace cldist::cluster
