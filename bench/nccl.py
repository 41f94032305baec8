#!/usr/bin/env python3
"""Measures NCCL on the GPUs of this host, to compare with bench/p2p and bench/collectives.

    nccl.py [--rounds N] [--collectives] [--gpus N] [SIZE...]
                                      sizes in bytes, with an optional suffix k or M; default 8 1M 16M 256M

Prints the one-way time of a ping-pong between two GPUs in µs: host time between two synchronisations, over enough
messages to last a few milliseconds; medians of the rounds. The last column is the time if each message is waited for. With --collectives: the time of an all-reduce, a broadcast
and an all-gather on N GPUs (2), each waited for, and many in a chain. The size is what each process contributes. Checks
the bytes that arrive.
Needs PyTorch with NCCL and as many GPUs; the exit status is 3 without them.
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

        def ping_pong(times, wait_for_each=False):
            calls = [(distributed.send, out), (distributed.recv, arrived)]
            if rank == 1:
                calls = [(distributed.recv, arrived), (distributed.send, arrived)]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(times):
                for call, data in calls:
                    call(data, peer)
                    if wait_for_each:
                        torch.cuda.synchronize()
            torch.cuda.synchronize()
            return (time.perf_counter() - start) / times / 2 * 1e6

        ping_pong(3)
        times = max(2, min(100, (1 << 30) // count))
        median, waited = (statistics.median(ping_pong(times, each) for _ in range(rounds)) for each in (False, True))
        if not torch.equal(out, arrived):
            sys.exit(f"rank {rank}: wrong bytes, size {count}")
        if rank == 0:
            print(f"nccl {count:>10} B {median:10.2f} us {count / median / 1e3:10.3f} GB/s  "
                  f"waited for {waited:10.2f} us", flush=True)
    distributed.destroy_process_group()


def measure_collectives(rank, sizes, rounds, meeting, gpus):
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method="file://" + meeting, rank=rank, world_size=gpus)
    for count in sizes:
        data = (torch.arange(count // 4, device="cuda") % 251).float() + rank
        out = torch.zeros_like(data)
        gathered = torch.zeros(count // 4 * gpus, device="cuda")

        def all_reduce():
            distributed.all_reduce(out)

        def broadcast():
            distributed.broadcast(out, 0)

        def all_gather():
            distributed.all_gather_into_tensor(gathered, data)

        wanted = sum((torch.arange(count // 4, device="cuda") % 251).float() + other for other in range(gpus))
        for call in all_reduce, broadcast, all_gather:
            out.copy_(data)
            call()
            torch.cuda.synchronize()
            if call is all_reduce and not torch.equal(out, wanted):
                sys.exit(f"rank {rank}: wrong sums, size {count}")
            if call is all_gather and not torch.equal(gathered.view(gpus, -1)[rank], data):
                sys.exit(f"rank {rank}: wrong bytes, size {count}")
            times = max(10, min(200, (1 << 30) // count))

            def seconds(wait_for_each):
                distributed.barrier()
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(times):
                    call()
                    if wait_for_each:
                        torch.cuda.synchronize()
                torch.cuda.synchronize()
                return (time.perf_counter() - start) / times

            waited, chained = (statistics.median(seconds(each) for _ in range(rounds)) * 1e6 for each in (True, False))
            if rank == 0:
                print(f"nccl {call.__name__} {gpus} GPUs {count:>10} B  waited for {waited:9.1f} us  "
                      f"chained {chained:9.1f} us", flush=True)
    distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--collectives", action="store_true")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("sizes", nargs="*", type=size, metavar="SIZE", default=[8, 1 << 20, 16 << 20, 256 << 20])
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("nccl.py: PyTorch is not installed", file=sys.stderr)
        return 3
    if torch.cuda.device_count() < options.gpus:
        print(f"nccl.py: needs {options.gpus} GPUs", file=sys.stderr)
        return 3
    # Multicast does not help here, and not every machine allows it.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    print(f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {torch.cuda.get_device_name(0)}")
    with tempfile.TemporaryDirectory() as folder:
        arguments = (options.sizes, options.rounds, os.path.join(folder, "meet"))
        if options.collectives:
            torch.multiprocessing.spawn(measure_collectives, (*arguments, options.gpus), nprocs=options.gpus)
        else:
            torch.multiprocessing.spawn(measure, arguments, nprocs=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
