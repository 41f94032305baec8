#!/usr/bin/env python3
"""Bytes go from rank 0's device to rank 1's and back: latency and bandwidth over sizes. Run on two processes."""

import argparse
import sys

import numpy as np
import pyopencl as cl
from mpi4py import MPI

import cldist

INCREMENT = "kernel void increment(global uchar *data) { ++data[get_global_id(0)]; }"


def bounce(rank, queue, buffer, size, between=lambda: None):
    """Enqueues one round trip, with a kernel `between` on each side; the in-order queue is all the order there is."""
    part = cldist.Range(buffer, 0, size)
    if rank == 0:
        cldist.send(queue, part, dest=1)
        back = cldist.recv(queue, part, source=1)
        between()
        return back
    cldist.recv(queue, part, source=0)
    between()
    return cldist.send(queue, part, dest=0)


def verify(rank, queue, buffer, size, increment):
    """Both sides add one to each byte in each of several rounds: what comes back must have been everywhere."""
    rounds = 5
    before = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    cl.enqueue_copy(queue, buffer, before if rank == 0 else np.zeros(size, np.uint8))
    for _ in range(rounds):
        last = bounce(rank, queue, buffer, size, between=lambda: increment(queue, (size,), None, buffer))
    cldist.wait(last)
    after = np.empty(size, np.uint8)
    cl.enqueue_copy(queue, after, buffer)
    added = 2 * rounds - (rank == 1)
    if not np.array_equal(after, before + np.uint8(added)):
        sys.exit(f"rank {rank}: {np.count_nonzero(after != before + np.uint8(added))} of {size} bytes are wrong")


def seconds_per_round(rank, queue, buffer, size, rounds):
    cldist.wait(bounce(rank, queue, buffer, size))
    MPI.COMM_WORLD.Barrier()
    start = MPI.Wtime()
    for _ in range(rounds):
        last = bounce(rank, queue, buffer, size)
    cldist.wait(last)
    return (MPI.Wtime() - start) / rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=16 << 20, metavar="BYTES")
    parser.add_argument("--device", choices=["all", "cpu", "gpu"], default="all")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    if comm.size != 2:
        sys.exit(f"runs on 2 processes, not on {comm.size}")

    cldist.init()
    context = cl.Context([cldist.local_device(comm, getattr(cl.device_type, options.device.upper()))])
    queue = cl.CommandQueue(context)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, options.largest)
    increment = cl.Program(context, INCREMENT).build().increment

    if comm.rank == 0:
        print(f"{'bytes':>10} {'latency':>12} {'bandwidth':>14}")
    size = 8
    while size <= options.largest:
        verify(comm.rank, queue, buffer, size, increment)
        seconds = seconds_per_round(comm.rank, queue, buffer, size, rounds=max(4, min(100, (64 << 20) // size)))
        if comm.rank == 0:
            print(f"{size:10} {seconds / 2 * 1e6:9.1f} us {2 * size / seconds / 1e6:9.1f} MB/s", flush=True)
        size *= 8
    if comm.rank == 0:
        print("all bytes verified")


if __name__ == "__main__":
    main()
