"""A program for several devices of one platform, with pyopencl and without MPI: cldist run shows it those of all processes."""

import numpy as np
import pyopencl as cl

devices = cl.get_platforms()[0].get_devices()
assert len(devices) == 2, devices
context = cl.Context(devices)
add = cl.Program(context, "kernel void add(global int *x, int n) { x[get_global_id(0)] += n; }").build().add
queues = [cl.CommandQueue(context, device) for device in devices]
random = np.random.default_rng().integers(0, 1000, 1000, np.int32)  # without a seed, yet the same in all processes
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=random)
event = add(queues[0], (1000,), None, buffer, np.int32(1))
add(queues[1], (1000,), None, buffer, np.int32(10), wait_for=[event])
found = np.empty_like(random)
cl.enqueue_copy(queues[1], found, buffer)
assert np.array_equal(found, random + 11)
print("the devices of 2 processes: correct")
