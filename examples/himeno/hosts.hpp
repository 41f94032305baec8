#pragma once

#include "slab.hpp"

namespace himeno {

/// The host programs. Each advances the slab by `iterations` and returns when all work is complete.

/// Runs one kernel, then read, MPI_Sendrecv, write. Nothing overlaps.
void run_serial(Slab &slab, int iterations);

/// Splits the slab into two halves. Exchanges the face of one by hand, with MPI_Irecv and
/// MPI_Isend, during the kernel of the other. Calls clFinish before the next kernel
/// (clDataTransfer, Listing 2).
void run_hand_optimised(Slab &slab, int iterations);

/// The same without clFinish. Events of both queues order the kernels, which are enqueued ahead.
/// The requests are persistent. Receives are posted early, into two buffers in turn.
void run_hand_tuned(Slab &slab, int iterations);

/// The same order of work, as commands chained by events. The host waits every
/// `iterations_per_wait` iterations. The first iteration has the number `first`, and waits for
/// `after` unless it is null.
void run_event_chained(Slab &slab, int iterations, int iterations_per_wait, int first = 0,
                       cl_event after = nullptr);

}  // namespace himeno
