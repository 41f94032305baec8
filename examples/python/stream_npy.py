#!/usr/bin/env python3
"""The sum of a large .npy file, which streams through a device in blocks. Needs no MPI.

Usage: stream_npy.py FILE    (a float32 array in C order; without FILE, an example file is written and read)
"""
import math
import sys
import tempfile

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import cldist

BLOCK = 1 << 20  # elements; two blocks are on the device
KERNEL = """kernel void add(global const float *block, global double *sums, int count) {
    double sum = 0;
    for (int i = get_global_id(0); i < count; i += get_global_size(0)) sum += block[i];
    sums[get_global_id(0)] += sum; }"""


def sum_of(path):
    context = cl.create_some_context(interactive=False)
    reading, compute = cl.CommandQueue(context), cl.CommandQueue(context)
    add = cl.Program(context, KERNEL).build().add
    blocks = [cla.empty(reading, BLOCK, np.float32) for _ in range(2)]
    sums = cla.zeros(compute, 256, np.float64)
    used = [[], []]  # the kernel that reads a block, before the next read into it
    with open(path, "rb") as file:
        np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if fortran or dtype != np.float32:
            sys.exit(f"{path}: a float32 array in C order is needed")
        start, elements = file.tell(), math.prod(shape)
        for i, first in enumerate(range(0, elements, BLOCK)):
            block = blocks[i % 2][:min(BLOCK, elements - first)]
            read = cldist.read_file(reading, block, file, start + 4 * first, wait_for=used[i % 2])
            used[i % 2] = [add(compute, (256,), None, block.base_data, sums.data, np.int32(block.size), wait_for=[read])]
            compute.flush()
    cldist.wait(*used[0], *used[1])
    return sums.get().sum()


def main():
    if len(sys.argv) > 1:
        print(f"the sum is {sum_of(sys.argv[1]):g}")
        return
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        values = np.random.default_rng(1).random(5 * BLOCK + 12345, np.float32)
        np.save(file.name, values)
        found, expected = sum_of(file.name), values.sum(dtype=np.float64)
        print(f"{values.nbytes / 1e6:.0f} MB: the sum is {found:.3f}, numpy's is {expected:.3f}")
        sys.exit(0 if abs(found - expected) <= 1e-6 * expected else "that is wrong")


main()
