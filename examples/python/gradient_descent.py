#!/usr/bin/env python3
"""Data-parallel gradient descent: each process has a part of the samples, and an all-reduce sums the gradients."""
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from mpi4py import MPI

import cldist

SAMPLES, FEATURES, STEPS, RATE = 4096, 64, 200, 0.5
KERNELS = """
kernel void residuals(global const float *x, global const float *y, global const float *w, global float *r, int features) {
    const size_t i = get_global_id(0);
    float sum = -y[i];
    for (int j = 0; j < features; ++j) sum += x[i * features + j] * w[j];
    r[i] = sum;
}
kernel void gradients(global const float *x, global const float *r, global float *g, int samples) {
    const size_t j = get_global_id(0);
    float sum = 0;
    for (int i = 0; i < samples; ++i) sum += x[i * get_global_size(0) + j] * r[i];
    g[j] = sum;
}
kernel void descend(global float *w, global const float *g, float rate) { w[get_global_id(0)] -= rate * g[get_global_id(0)]; }
"""

comm = MPI.COMM_WORLD
cldist.init()
context = cl.Context([cldist.local_device()])
queue = cl.CommandQueue(context)  # in order: kernels and all-reduces follow one another
program = cl.Program(context, KERNELS).build()

random = np.random.default_rng(comm.rank)
truth = np.linspace(-1, 1, FEATURES, dtype=np.float32)
samples = random.standard_normal((SAMPLES, FEATURES), np.float32)
x, y = cla.to_device(queue, samples), cla.to_device(queue, samples @ truth)
w, g, r = (cla.zeros(queue, count, np.float32) for count in (FEATURES, FEATURES, SAMPLES))
for step in range(STEPS):
    program.residuals(queue, (SAMPLES,), None, x.data, y.data, w.data, r.data, np.int32(FEATURES))
    program.gradients(queue, (FEATURES,), None, x.data, r.data, g.data, np.int32(SAMPLES))
    summed = cldist.allreduce(queue, None, g)  # in place
    program.descend(queue, (FEATURES,), None, w.data, g.data, np.float32(RATE / (SAMPLES * comm.size)))
cldist.wait(summed)
error = float(np.abs(w.get() - truth).max())
if comm.rank == 0:
    print(f"{comm.size} processes, {SAMPLES * comm.size} samples: the largest error of a weight is {error:.1e}")
sys.exit(error > 1e-4)
