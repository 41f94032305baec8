#!/usr/bin/env python3
"""Checks that every pair of different calls of two processes is reported.

    check_pairs.py [--neighbours] PROGRAM WAY... -- MPIRUN ARGUMENT...

Rank 0 makes the call of the first way, the other ranks that of the second. With --neighbours, each way is paired only with
the next one.
"""

import concurrent.futures
import itertools
import subprocess
import sys


def main():
    split = sys.argv.index("--")
    arguments, mpirun = sys.argv[1:split], sys.argv[split + 1 :]
    neighbours = arguments[0] == "--neighbours"
    program, *ways = arguments[1:] if neighbours else arguments

    def run(pair):
        try:
            done = subprocess.run(mpirun + [program, *pair], capture_output=True, text=True, errors="replace", timeout=60)
        except subprocess.TimeoutExpired:
            return "does not end"
        named = [line for line in done.stderr.splitlines() if "calls differ: " in line]
        if done.returncode != 1:
            return f"ends with {done.returncode}\n{done.stderr}"
        if len(named) != 1 or "rank 0's" not in named[0] or "rank 1's" not in named[0]:
            return f"is not named\n{done.stderr}"
        return ""

    pairs = list(zip(ways, ways[1:] + ways[:1]) if neighbours else itertools.permutations(ways, 2))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [f"{pair[0]} and {pair[1]}: {what}" for pair, what in zip(pairs, pool.map(run, pairs)) if what]
    print(f"{len(pairs)} pairs", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
