#!/usr/bin/env python3
"""Heat in a plate with fixed edges, by Jacobi's method, in bands of rows over any number of processes.

Each iteration computes the two outer rows of a band, exchanges them with the neighbours while the rows between are
computed, and goes on when the neighbours' rows are there. Events order all of it; the host only enqueues.
"""

import argparse
import sys

import numpy as np
import pyopencl as cl
from mpi4py import MPI

import cldist

# One work-item computes one point; row 0 and the last are the neighbours', or the plate's edges.
KERNEL = """
kernel void relax(global const float *old, global float *new, int first_row, int row_step) {
    const int width = get_global_size(0) + 2;
    const int at = (first_row + (int)get_global_id(1) * row_step) * width + (int)get_global_id(0) + 1;
    new[at] = 0.25f * ((old[at - width] + old[at + width]) + (old[at - 1] + old[at + 1]));
}
"""


def plate(height, width):
    """The start: hot and cold spots inside, a warm upper edge."""
    start = np.random.default_rng(1).random((height, width), dtype=np.float32)
    start[0] = 10
    return start


def relaxed(field, iterations):
    """The same in numpy, with the kernel's order of operations: to the last bit the same."""
    old = field.copy()
    new = field.copy()
    for _ in range(iterations):
        new[1:-1, 1:-1] = np.float32(0.25) * ((old[:-2, 1:-1] + old[2:, 1:-1]) + (old[1:-1, :-2] + old[1:-1, 2:]))
        old, new = new, old
    return old


class Band:
    """This process's rows of the plate, with a row of each neighbour above and below, twice: old and new."""

    def __init__(self, comm, device, start):
        inner = start.shape[0] - 2
        if inner < comm.size:
            sys.exit(f"{inner} inner rows are too few for {comm.size} processes")
        self.first, self.last = (1 + inner * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        self.rows = self.last - self.first
        self.width = start.shape[1]
        self.above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self.below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL

        context = cl.Context([device])
        self.compute, self.upwards, self.downwards = (cl.CommandQueue(context) for _ in range(3))
        size = 4 * (self.rows + 2) * self.width
        self.old, self.new = (cl.Buffer(context, cl.mem_flags.READ_WRITE, size) for _ in range(2))
        self.relax = cl.Program(context, KERNEL).build().relax
        self.exchanged = []

    def load(self, start):
        mine = np.ascontiguousarray(start[self.first - 1:self.last + 1])
        for buffer in (self.old, self.new):
            cl.enqueue_copy(self.compute, buffer, mine)

    def relax_rows(self, first, count, step, wait_for=None):
        return self.relax(self.compute, (self.width - 2, count), None, self.old, self.new, np.int32(first),
                          np.int32(step), wait_for=wait_for)

    def exchange(self, queue, send_row, dest, recv_row, source, wait_for):
        row_bytes = 4 * self.width
        return cldist.sendrecv(queue, self.new, dest, self.new, source,
                               send_offset=send_row * row_bytes, send_size=row_bytes,
                               recv_offset=recv_row * row_bytes, recv_size=row_bytes, wait_for=wait_for)

    def iterate(self):
        """Enqueues one iteration."""
        rows = self.rows
        outer = [self.relax_rows(1, min(rows, 2), max(rows - 1, 1), wait_for=self.exchanged)]
        self.compute.flush()
        self.exchanged = [self.exchange(self.upwards, 1, self.above, rows + 1, self.below, outer),
                          self.exchange(self.downwards, rows, self.below, 0, self.above, outer)]
        if rows > 2:
            self.relax_rows(2, rows - 2, 1)
        self.old, self.new = self.new, self.old

    def wait(self):
        cldist.wait(*self.exchanged)
        self.compute.finish()

    def result(self):
        """The rows that this process computed."""
        field = np.empty((self.rows + 2, self.width), np.float32)
        cl.enqueue_copy(self.compute, field, self.old)
        return field[1:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--height", type=int, default=1026)
    parser.add_argument("--width", type=int, default=1026)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--ahead", type=int, default=20, help="iterations enqueued before the host waits")
    parser.add_argument("--device", choices=["all", "cpu", "gpu"], default="all")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD

    cldist.init()
    start = plate(options.height, options.width)
    device = cldist.local_device(comm, getattr(cl.device_type, options.device.upper()))
    band = Band(comm, device, start)
    band.load(start)
    band.iterate()  # kernels are compiled when they first run
    band.wait()
    band.load(start)

    comm.Barrier()
    began = MPI.Wtime()
    for i in range(1, options.iterations + 1):
        band.iterate()
        if i % options.ahead == 0:
            band.wait()
    band.wait()
    seconds = comm.reduce(MPI.Wtime() - began, MPI.MAX)

    bands = comm.gather(band.result())
    if comm.rank == 0:
        points = (options.height - 2) * (options.width - 2) * options.iterations
        print(f"{comm.size} processes: {options.iterations} iterations in {seconds:.3f} s, "
              f"{points / seconds / 1e6:.0f} million points/s")
        expected = relaxed(start, options.iterations)
        wrong = np.count_nonzero(np.concatenate(bands) != expected[1:-1])
        if wrong:
            sys.exit(f"{wrong} points are not those of numpy")
        print("every point is numpy's")


if __name__ == "__main__":
    main()
