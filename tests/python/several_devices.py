"""A program for several devices of one platform, without MPI. `cldist run` shows it the devices of all processes."""

import numpy as np
import pyopencl as cl

devices = cl.get_platforms()[0].get_devices()
assert len(devices) == 4, devices
context = cl.Context(devices)
add = cl.Program(context, "kernel void add(global int *x, int n) { x[get_global_id(0)] += n; }").build().add
queues = [cl.CommandQueue(context, device) for device in devices]
random = np.random.default_rng().integers(0, 1000, 1000, np.int32)  # not seeded, but equal in all processes
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=random)
events = []
for number, queue in enumerate(queues):
    events = [add(queue, (1000,), None, buffer, np.int32(10 ** number), wait_for=events)]
found = np.empty_like(random)
cl.enqueue_copy(queues[-1], found, buffer)
assert np.array_equal(found, random + 1111)
print("the devices of 4 processes: correct")
