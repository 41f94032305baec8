#pragma once

#include "powder.hpp"

#include <CL/cl_ext_dist.h>

namespace nanopowder {

// The host programs. Each computes `steps` steps and returns when all work is complete. In both,
// rank 0 computes the matrix of the next step while the devices compute the current step, and every
// receive is posted one step ahead.

/// MPI_Isend, MPI_Irecv into page-locked memory, clEnqueueWriteBuffer.
void run_baseline(Powder &powder, int steps);

/// MPI_Isend of MPI_CL_MEM, clEnqueueRecvBuffer.
void run_mpi_cl_mem(Powder &powder, int steps);

}  // namespace nanopowder
