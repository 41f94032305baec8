#pragma once

#include <string>
#include <vector>

#include "finding.hpp"

namespace cldist::tool {

/// A library that a program loads at its start.
struct LoadedObject {
    std::string path;
    bool has_init = false;            ///< defines MPI_Init
    bool has_profiling_init = false;  ///< defines PMPI_Init
};

/// Whether the program's MPI calls reach cldist. `objects` are in the loader's search order. Pure.
[[nodiscard]] Findings judge_program(const std::string &program,
                                     const std::vector<LoadedObject> &objects);

/// Calls judge_program() for an executable file and the libraries that it would load in this
/// environment. Does not run the program.
[[nodiscard]] Findings program_findings(const std::string &program);

}  // namespace cldist::tool
