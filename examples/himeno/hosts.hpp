#pragma once

#include "slab.hpp"

namespace himeno {

// The host programs. Each advances the slab by `iterations` and returns when all work is complete.

/// Runs one kernel, then read, MPI_Sendrecv, write. Nothing overlaps.
void run_serial(Slab &slab, int iterations);

/// Splits the slab into two halves (clDataTransfer, Listing 2). Exchanges the face of one half with
/// MPI_Irecv and MPI_Isend during the kernel of the other. Calls clFinish before the next kernel.
void run_hand_optimised(Slab &slab, int iterations);

/// The same without clFinish. Kernels are enqueued ahead, and events order the kernels of both
/// halves. Requests are persistent. Receives are posted early, into two alternating buffers.
void run_hand_tuned(Slab &slab, int iterations);

/// Runs the commands of run_serial as one chain in an in-order queue.
void run_in_order(Slab &slab, int iterations);

/// The order of work of run_hand_tuned, with cldist's commands chained by events. The host waits
/// every `iterations_per_wait` iterations. The first iteration has the number `first` and waits for
/// the event `after`, unless that is null.
void run_event_chained(Slab &slab, int iterations, int iterations_per_wait, int first = 0,
                       cl_event after = nullptr);

}  // namespace himeno
