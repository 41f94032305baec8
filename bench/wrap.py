#!/usr/bin/env python3
"""Measures what linking with cldist costs a plain MPI program, with an 8-byte ping-pong of two processes.

Each round runs three programs in turn: without the library, without it but at the thread level that the library
requests, and with it.

Environment: BUILD_DIR, CLDIST_MPIRUN (how to start processes).
Prints a Markdown table and writes the numbers to BUILD_DIR/bench-results/wrap.json.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

VARIANTS = {"without, MPI_Init": ["wrap-without-cldist", "single"],
            "without, MPI_THREAD_MULTIPLE": ["wrap-without-cldist", "multiple"],
            "with": ["wrap", "single"]}


def run(program, level):
    command = [*shlex.split(os.environ.get("CLDIST_MPIRUN", "mpirun")), "-n", "2",
               str(pathlib.Path(os.environ["BUILD_DIR"]) / "bench" / program), level]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"wrap: {shlex.join(command)} failed")
    mpi, pmpi, _ = done.stdout.split()
    return float(mpi), float(pmpi)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]

    times = {name: [] for name in VARIANTS}
    for _ in range(arguments.rounds):
        for name, command in VARIANTS.items():
            times[name].append(run(*command))

    print(f"## wrap: 8 B between two processes, plain MPI\n\n- load before: {load:.2f}\n- rounds: {arguments.rounds}, "
          "medians of 200 loops of 500 messages in each\n")
    if load > os.cpu_count() / 2:
        print("- **the machine was busy with other programs: measure again on a quiet machine**\n")
    print("| program | one way, MPI_ | one way, PMPI_ |\n|---|---:|---:|")
    for name, pairs in times.items():
        print(f"| {name} | {statistics.median(p[0] for p in pairs):.0f} ns | {statistics.median(p[1] for p in pairs):.0f} ns |")

    def ratio(of, by):
        return statistics.median(x / y for x, y in zip(of, by))

    with_library = [mpi for mpi, _ in times["with"]]
    ratios = {
        "with the library : without": ratio(with_library, [m for m, _ in times["without, MPI_Init"]]),
        "with the library : without, MPI_THREAD_MULTIPLE both":
            ratio(with_library, [m for m, _ in times["without, MPI_THREAD_MULTIPLE"]]),
        "MPI_ : PMPI_ in the program with the library": ratio(with_library, [p for _, p in times["with"]]),
    }
    print()
    for name, value in ratios.items():
        print(f"- {name}: **{value:.3f}**")
    results = pathlib.Path(os.environ["BUILD_DIR"]) / "bench-results/wrap.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps({
        "bench": "wrap", "label": "", "rows": times,
        "ratios": [{"name": f"wrap, {name}", "value": value, "better": "lower"} for name, value in ratios.items()]}))


if __name__ == "__main__":
    main()
