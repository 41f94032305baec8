#pragma once

#include "aerosol.hpp"

namespace nanopowder {

/// Solves Smoluchowski's equation with loops in double precision, without OpenCL, MPI and the
/// matrix. The results of all host programs must be close to these.
std::vector<double> run_reference(const Aerosol &aerosol, int steps);

}  // namespace nanopowder
