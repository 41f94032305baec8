#pragma once

#include <mpi.h>

#include "cluster/objects/errors.hpp"

namespace cldist::cluster {

/// Before a message: MPI ends with the program, whose objects may still make calls in their
/// destructors. Throws an Error then.
inline void require_mpi() {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized != 0)
        fail(CL_OUT_OF_RESOURCES,
             "the program is ending, so other processes do not answer any more");
}

}  // namespace cldist::cluster
