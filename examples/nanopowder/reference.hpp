#pragma once

#include "aerosol.hpp"

namespace nanopowder {

/// Smoluchowski's equation as plain loops in double precision, without OpenCL, MPI and the matrix:
/// what all host programs must come close to.
std::vector<double> run_reference(const Aerosol &aerosol, int steps);

}  // namespace nanopowder
