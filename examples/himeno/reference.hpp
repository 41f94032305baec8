#pragma once

#include "grid.hpp"

#include <vector>

namespace himeno {

struct Reference {
    std::vector<float> pressure;
    double gosa;  ///< of the last iteration
};

/// The benchmark as plain sequential loops, without OpenCL and MPI: what all host programs must
/// reproduce.
Reference run_reference(const Grid &grid, int iterations);

}  // namespace himeno
