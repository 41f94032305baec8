#!/usr/bin/env python3
"""Heat in a plate by Jacobi's method: blocks of the plate in a grid of processes, with halos of rows and columns."""
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from mpi4py import MPI

import cldist

N, STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500, 200  # a block has N x N points, and a halo of one on each side
KERNEL = """kernel void relax(global const float *old, global float *new) {
    const size_t w = get_global_size(0) + 2, i = (get_global_id(1) + 1) * w + get_global_id(0) + 1;
    new[i] = 0.25f * ((old[i - w] + old[i + w]) + (old[i - 1] + old[i + 1])); }"""
cldist.init()
grid = MPI.COMM_WORLD.Create_cart(MPI.Compute_dims(MPI.COMM_WORLD.size, 2))
(top, bottom), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)  # MPI.PROC_NULL at the edges of the plate
context = cl.Context([cldist.local_device(grid)])
compute, messages = cl.CommandQueue(context), cl.CommandQueue(context)
relax = cl.Program(context, KERNEL).build().relax
row, column = (c * N for c in grid.coords)
heat = np.random.default_rng(1).random((grid.dims[0] * N + 2, grid.dims[1] * N + 2), np.float32)
old, new = (cla.to_device(compute, np.ascontiguousarray(heat[row:row + N + 2, column:column + N + 2])) for _ in range(2))
halos = []
for step in range(STEPS):
    done = relax(compute, (N, N), None, old.data, new.data, wait_for=halos)
    halos = [cldist.sendrecv(messages, new[a, 1:-1], to, new[b, 1:-1], of, comm=grid, wait_for=[done])
             for a, to, b, of in ((1, top, N + 1, bottom), (N, bottom, 0, top))]
    halos += [cldist.sendrecv(messages, new[1:-1, a], to, new[1:-1, b], of, comm=grid, wait_for=[done])
              for a, to, b, of in ((1, left, N + 1, right), (N, right, 0, left))]
    old, new = new, old
    compute.flush()
cldist.wait(*halos)
for step in range(STEPS):  # the same in numpy
    heat[1:-1, 1:-1] = np.float32(0.25) * ((heat[:-2, 1:-1] + heat[2:, 1:-1]) + (heat[1:-1, :-2] + heat[1:-1, 2:]))
wrong = np.count_nonzero(old.get()[1:-1, 1:-1] != heat[row + 1:row + N + 1, column + 1:column + N + 1])
print(f"rank {grid.rank} of {grid.dims[0]} x {grid.dims[1]}: {wrong} of {N * N} points differ from numpy's")
sys.exit(wrong != 0)
