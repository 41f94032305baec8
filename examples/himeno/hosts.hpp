#pragma once

#include "slab.hpp"

namespace himeno {

/// The host programs. Each advances the slab by `iterations` and returns when nothing is in flight any more.

/// One kernel, then read, MPI_Sendrecv, write: nothing overlaps.
void run_serial(Slab &slab, int iterations);

/// Two halves, the face of one exchanged by hand, MPI_Irecv and MPI_Isend, under the kernel of the other; clFinish before the
/// next kernel (clDataTransfer, Listing 2).
void run_hand_optimised(Slab &slab, int iterations);

/// The same without clFinish: events of both queues order the kernels, which are enqueued ahead, the requests are
/// persistent, and receives are posted early, into two buffers in turns.
void run_hand_tuned(Slab &slab, int iterations);

/// The same order of work, as commands chained by events; the host waits every
/// `iterations_per_wait` iterations. The first of them has the number `first`, and waits for `after`, if that is not null.
void run_event_chained(Slab &slab, int iterations, int iterations_per_wait, int first = 0, cl_event after = nullptr);

}  // namespace himeno
