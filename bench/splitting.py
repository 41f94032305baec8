#!/usr/bin/env python3
"""Kernels that are split: the programs of examples/splitting natively and on one device in front of 1, 2 and more processes'.

For each program the seconds of a run, and the median time that its host takes to enqueue a launch, by what is derived and
by meta-functions: what that is above the native time is bookkeeping. Then HotSpot by the height of its pyramids, the time
to enqueue a launch beside devices that are simulated, and how many of the kernels of examples/ can be split with no
meta-functions. Programs check their results, but for simulated ones.

Environment: BUILD_DIR. Prints Markdown tables; the numbers also go to BUILD_DIR/bench-results/splitting.json.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
CLDIST = str(BUILD / "tools/cldist/cldist")
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
META = str(BUILD / "examples/splitting/libsplitting-meta-functions.so")
# About a second or less each on one core of 2020; --quick: as small as in the tests.
PROGRAMS = {
    "nearest_neighbour": (["--size", "4000000"], ["--size", "1009"]),
    "mandelbrot": (["--size", "1024"], ["--size", "61", "--iterations", "50"]),
    "hash": (["--size", "500000"], ["--size", "101"]),
    "bitonic_sort": (["--size", "1048576"], ["--size", "512"]),
    "binomial_option": (["--size", "2048"], ["--size", "21", "--iterations", "31"]),
    "monte_carlo": (["--size", "512", "--iterations", "200"], ["--size", "23", "--iterations", "20"]),
    "n_body": (["--size", "8192"], ["--size", "83", "--iterations", "3"]),
    "k_means": (["--size", "500000"], ["--size", "203", "--iterations", "3"]),
    "back_propagation": (["--size", "262144"], ["--size", "112", "--iterations", "2"]),
    "hotspot": (["--size", "1024x1024:5", "--iterations", "20"], ["--size", "53x41:3", "--iterations", "7"]),
    "lu_decomposition": (["--size", "512"], ["--size", "64"]),
}
LINE = re.compile(r"^\S+ \S+: ([\d.]+) s, ([\d.]+) us to enqueue a launch", re.MULTILINE)


def run(name, arguments, *how, **settings):
    """The seconds of a run, and the microseconds of enqueueing a launch."""
    command = [str(BUILD / "examples/splitting" / f"splitting_{name}"), *arguments]
    if how:
        command = [CLDIST, "run", *how, "--view", "aggregate", "--", *command]
    environment = {"POCL_MAX_PTHREAD_COUNT": "1", "CLDIST_PROFILE": "none", **os.environ, **settings}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    line = LINE.search(done.stdout)
    if done.returncode != 0 or line is None:
        sys.exit(f"splitting: {shlex.join(command)} failed with status {done.returncode}\n{done.stderr}")
    return float(line[1]), float(line[2])


def medians(rounds, runs):
    """Of each of several runs, which take turns."""
    results = {key: [] for key in runs}
    for _ in range(rounds):
        for key, once in runs.items():
            results[key].append(once())
    return {key: [statistics.median(column) for column in zip(*rows)] for key, rows in results.items()}


def table(head, rows):
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |")


def measure_programs(arguments):
    results = {}
    for name, sizes in PROGRAMS.items():
        size = [*sizes[arguments.quick], "--repeat", "5"]
        runs = {"native": lambda: run(name, size)}
        for n in arguments.processes:
            runs[f"{n}"] = lambda n=n: run(name, size, "-n", str(n))
            runs[f"{n}, by hand"] = lambda n=n: run(name, size, "-n", str(n), CLDIST_META=META)
        results[name] = medians(arguments.rounds, runs)
        print(f"{name} done", file=sys.stderr)
    keys = list(next(iter(results.values())))
    table(["seconds of", *keys], [[name, *(f"{times[key][0]:.4f}" for key in keys)] for name, times in results.items()])
    table(["µs to enqueue a launch of", *keys],
          [[name, *(f"{times[key][1]:.1f}" for key in keys)] for name, times in results.items()])
    return results


def measure_pyramids(arguments):
    side = 64 if arguments.quick else 1024
    results = {}
    for height in range(1, 7):
        size = ["--size", f"{side}x{side}:{height}", "--iterations", "60"]
        runs = {"native": lambda: run("hotspot", size)}
        for n in arguments.processes:
            runs[f"{n}"] = lambda n=n: run("hotspot", size, "-n", str(n))
        results[height] = medians(arguments.rounds, runs)
    keys = list(results[1])
    table(["seconds of HotSpot by pyramid height", *keys],
          [[height, *(f"{times[key][0]:.4f}" for key in keys)] for height, times in results.items()])
    return results


def measure_simulated(arguments):
    """So many work-items that each device has some."""
    size = ["--size", "100000", "--repeat", "50", "--no-check"]
    results = medians(arguments.rounds, {n: lambda n=n: run("hash", size, "--simulate", str(n)) for n in (2, 64, 1024)})
    table(["devices, simulated", "launches of `hash` per second"],
          [[n, f"{1e6 / micros:.0f}"] for n, (_, micros) in results.items()])
    return {n: micros for n, (_, micros) in results.items()}


def count_kernels():
    """Of all kernels of examples/. Options as their programs give them, or some that will do."""
    options = {"hotspot": "-DBLOCK=16", "lu_decomposition": "-DBLOCK=16", "nbody": "-DGROUP=64",
               "kmeans": "-DCLUSTERS=5 -DDIMENSIONS=8", "matrix_multiplication": "-DTILE=16"}
    split, whole, failed = [], [], []
    for source in sorted(EXAMPLES.rglob("*.cl")):
        done = subprocess.run([CLDIST, "explain", str(source), *options.get(source.stem, "").split()],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            failed.append(source.name)
            continue
        for kernel, rest in re.findall(r"^kernel (\w+): (.*)", done.stdout, re.MULTILINE):
            (split if rest.startswith("can be split") else whole).append(f"{source.stem}: {kernel}")
    print(f"\nOf {len(split) + len(whole)} kernels of examples/ {len(split)} can be split with no meta-functions.")
    for name in whole:
        print(f"- not {name}")
    for name in failed:
        print(f"- {name} is not compiled alone")
    return {"split": split, "whole": whole, "failed": failed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    parser.add_argument("--rounds", type=int, default=1, help="of all runs, of which the medians count (default 1)")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it works, not how fast")
    arguments = parser.parse_args()
    results = {"programs": measure_programs(arguments), "pyramids": measure_pyramids(arguments),
               "simulated": measure_simulated(arguments), "kernels": count_kernels()}
    (BUILD / "bench-results").mkdir(exist_ok=True)
    (BUILD / "bench-results/splitting.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
