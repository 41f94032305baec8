"""Adds numbers on each OpenCL device of the platform cldist."""

import numpy as np
import pyopencl as cl

context = cl.Context(next(p for p in cl.get_platforms() if "cldist" in p.name).get_devices())
program = cl.Program(context, "kernel void add(global int *x, int y) { x[get_global_id(0)] += y; }").build()
for number, device in enumerate(context.devices):
    queue = cl.CommandQueue(context, device)
    x = np.arange(1000, dtype=np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
    program.add(queue, x.shape, None, buffer, np.int32(number))
    result = np.empty_like(x)
    cl.enqueue_copy(queue, result, buffer)
    assert (result == x + number).all(), f"device {number} computed {result}"
print(f"{len(context.devices)} devices, all sums are right")
