#!/usr/bin/env python3
"""Measures NCCL's send and receive between the first two GPUs of this host, to compare with bench/p2p.

    nccl.py [--rounds N] [SIZE...]    sizes in bytes, with an optional suffix k or M; default 8 1M 16M 256M

Prints the one-way time of a ping-pong in µs: host time between two synchronisations, over enough messages to last a
few milliseconds; medians of the rounds. Checks the bytes that arrive.
Needs PyTorch with NCCL and two GPUs; the exit status is 3 without them.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time


def size(text):
    factor = {"k": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
    return int(text[:-1] if factor > 1 else text) * factor


def measure(rank, sizes, rounds, meeting):
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method="file://" + meeting, rank=rank, world_size=2)
    peer = 1 - rank
    for count in sizes:
        out = (torch.arange(count, device="cuda", dtype=torch.int64) % 251).to(torch.uint8)
        arrived = torch.zeros_like(out)

        def ping_pong(times):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(times):
                if rank == 0:
                    distributed.send(out, peer)
                    distributed.recv(arrived, peer)
                else:
                    distributed.recv(arrived, peer)
                    distributed.send(arrived, peer)
            torch.cuda.synchronize()
            return (time.perf_counter() - start) / times / 2 * 1e6

        ping_pong(3)
        times = max(2, min(100, (1 << 30) // count))
        median = statistics.median(ping_pong(times) for _ in range(rounds))
        if not torch.equal(out, arrived):
            sys.exit(f"rank {rank}: wrong bytes, size {count}")
        if rank == 0:
            print(f"nccl {count:>10} B {median:10.2f} us {count / median / 1e3:10.3f} GB/s", flush=True)
    distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("sizes", nargs="*", type=size, metavar="SIZE", default=[8, 1 << 20, 16 << 20, 256 << 20])
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("nccl.py: PyTorch is not installed", file=sys.stderr)
        return 3
    if torch.cuda.device_count() < 2:
        print("nccl.py: needs two GPUs", file=sys.stderr)
        return 3
    # Multicast does not help here, and not every machine allows it.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    print(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {torch.cuda.get_device_name(0)}")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(measure, (options.sizes, options.rounds, os.path.join(folder, "meet")), nprocs=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
