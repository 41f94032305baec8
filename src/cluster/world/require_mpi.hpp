#pragma once

#include <mpi.h>

#include "cluster/objects/errors.hpp"

namespace cldist::cluster {

/// Throws an Error if MPI has been finalised. Call it before a message: the program's objects may
/// make OpenCL calls in their destructors, after the end of MPI.
inline void require_mpi() {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized != 0)
        fail(CL_OUT_OF_RESOURCES,
             "the program is ending, so other processes do not answer any more");
}

}  // namespace cldist::cluster
