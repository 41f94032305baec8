/// What processes tell each other of programs.
#pragma once

#include "cluster/objects/program.hpp"
#include "cluster/world/exchange.hpp"

namespace cldist::cluster {

/// The answer of the native program of the first device that the program was built for.
const Blob &info_of(const Exchange &exchange, const ProgramObject &program, cl_program_info param);

}  // namespace cldist::cluster
