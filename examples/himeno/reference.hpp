#pragma once

#include "grid.hpp"

#include <vector>

namespace himeno {

struct Reference {
    std::vector<float> pressure;
    double gosa;  ///< of the last iteration
};

/// Runs the benchmark as sequential loops. All host programs must reproduce its results.
Reference run_reference(const Grid &grid, int iterations);

}  // namespace himeno
