#!/usr/bin/env python3
"""Measures kernels that are split: the programs of examples/splitting, natively and on one device that stands for the
devices of 1, 2 and more processes.

- The seconds of a run and the median time to enqueue a launch, with derived access and with access-functions. The time
  above the native one is bookkeeping.
- How two processes spend their time, from their traces: kernels of the first, messages, both at once, or neither.
- HotSpot by the height of its pyramids.
- The time to enqueue a launch with simulated devices.
- How many kernels of examples/ can be split without access-functions.

Programs check their results, except simulated runs and those of --large.

Environment: BUILD_DIR. Prints Markdown tables and writes the numbers to BUILD_DIR/bench-results/splitting.json.
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
import tempfile

import pictures

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
CLDIST = str(BUILD / "tools/cldist/cldist")
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
ACCESS = str(BUILD / "examples/splitting/libsplitting-access-functions.so")
# Default sizes take at most about a second on one core of 2020. --quick: the sizes of the tests.
# --large: some milliseconds on a GPU.
PROGRAMS = {
    "nearest_neighbour": (["--size", "4000000"], ["--size", "1009"], ["--size", "20000000"]),
    "mandelbrot": (["--size", "1024"], ["--size", "61", "--iterations", "50"], ["--size", "8192"]),
    "hash": (["--size", "500000"], ["--size", "101"], ["--size", "50000000"]),
    "bitonic_sort": (["--size", "1048576"], ["--size", "512"], ["--size", "33554432"]),
    "binomial_option": (["--size", "2048"], ["--size", "21", "--iterations", "31"], ["--size", "131072"]),
    "monte_carlo": (["--size", "512", "--iterations", "200"], ["--size", "23", "--iterations", "20"], ["--size", "1048576", "--iterations", "200"]),
    "n_body": (["--size", "8192"], ["--size", "83", "--iterations", "3"], ["--size", "524288"]),
    "k_means": (["--size", "500000"], ["--size", "203", "--iterations", "3"], ["--size", "5000000"]),
    "back_propagation": (["--size", "262144"], ["--size", "112", "--iterations", "2"], ["--size", "8388608"]),
    "hotspot": (["--size", "1024x1024:5", "--iterations", "20"], ["--size", "53x41:3", "--iterations", "7"], ["--size", "8192x8192:5", "--iterations", "20"]),
    "lu_decomposition": (["--size", "512"], ["--size", "64"], ["--size", "4096"]),
}
LINE = re.compile(r"^\S+ \S+: ([\d.]+) s, ([\d.]+) us to enqueue a launch", re.MULTILINE)


def run(name, arguments, *how, **settings):
    """Returns the seconds of a run and the microseconds to enqueue a launch."""
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
    """Returns the medians of several runs, which take turns."""
    results = {key: [] for key in runs}
    for _ in range(rounds):
        for key, once in runs.items():
            results[key].append(once())
    return {key: [statistics.median(column) for column in zip(*rows)] for key, rows in results.items()}


def table(head, rows):
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |")


def options(arguments, usual, small, large):
    """Returns the options of a program for the chosen sizes. Large runs are not checked: that would take minutes."""
    return {"usual": usual, "small": small, "large": [*large, "--no-check"]}[arguments.sizes]


def measure_programs(arguments):
    results = {}
    for name, sizes in PROGRAMS.items():
        size = [*options(arguments, *sizes), "--repeat", "5"]
        runs = {"native": lambda: run(name, size)}
        for n in arguments.processes:
            runs[f"{n}"] = lambda n=n: run(name, size, "-n", str(n))
            runs[f"{n}, by hand"] = lambda n=n: run(name, size, "-n", str(n), CLDIST_ACCESS_FUNCTIONS=ACCESS)
        results[name] = medians(arguments.rounds, runs)
        print(f"{name}: {', '.join(f'{key} {times[0]:.4f} s' for key, times in results[name].items())}", file=sys.stderr)
    keys = list(next(iter(results.values())))
    table(["seconds of", *keys], [[name, *(f"{times[key][0]:.4f}" for key in keys)] for name, times in results.items()])
    table(["µs to enqueue a launch of", *keys],
          [[name, *(f"{times[key][1]:.1f}" for key in keys)] for name, times in results.items()])
    return results


def union(spans):
    """Joins spans that overlap or touch, and sorts them."""
    joined = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return joined


def length(spans):
    return sum(end - begin for begin, end in union(spans))


def sends_of(events):
    """Yields the times of sends, each from when it may begin. Receives are left out: they may wait for the sender."""
    begun = {}
    for event in sorted((event for event in events if event["ph"] in "be"), key=lambda event: event["ts"]):
        if (event["name"], event["ph"]) in (("send", "b"), ("wait", "e")):
            begun[event["id"]] = event["ts"]
        elif (event["name"], event["ph"]) == ("send", "e"):
            yield begun[event["id"]], event["ts"]


def parts_of(traces):
    """Returns how the time between the first and the last event divides into kernels of the first process alone, both at
    once, messages alone, and neither. The traces come from two processes of one host."""
    events = [json.loads(trace.read_text())["traceEvents"] for trace in traces]
    kernels = [(event["ts"], event["ts"] + event["dur"]) for event in events[0] if event["ph"] == "X"]
    messages = [send for of_one in events for send in sends_of(of_one)]
    every = kernels + messages
    both = length(kernels) + length(messages) - length(every)
    whole = max(end for _, end in every) - min(begin for begin, _ in every)
    return {"kernels": (length(kernels) - both) / whole, "both": both / whole,
            "messages": (length(messages) - both) / whole, "neither": 1 - length(every) / whole}


def measure_parts(arguments):
    results = {}
    for name, sizes in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            run(name, [*options(arguments, *sizes), "--repeat", "5"], "-n", "2", CLDIST_TRACE=folder)
            results[name] = parts_of(sorted(pathlib.Path(folder).glob("cldist-trace-*.json")))
    keys = list(next(iter(results.values())))
    table(["% of the time of 2 processes", *keys],
          [[name, *(f"{100 * parts[key]:.1f}" for key in keys)] for name, parts in results.items()])
    if arguments.picture:
        draw(results, arguments.picture)
    return results


def draw(results, picture):
    pyplot = pictures.find_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    left = [0.0] * len(results)
    for key, colour in (("kernels", "#0072b2"), ("both", "#009e73"), ("messages", "#e69f00"), ("neither", "#bbbbbb")):
        widths = [100 * parts[key] for parts in results.values()]
        axes.barh(list(results), widths, left=left, color=colour, label=key)
        left = [one + other for one, other in zip(left, widths)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the time, rank 0 of two processes")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    figure.savefig(picture, dpi=120)


def measure_pyramids(arguments):
    results = {}
    for height in range(1, 7):
        size = options(arguments, *(["--size", f"{side}x{side}:{height}", "--iterations", "60"] for side in (1024, 64, 8192)))
        runs = {"native": lambda: run("hotspot", size)}
        for n in arguments.processes:
            runs[f"{n}"] = lambda n=n: run("hotspot", size, "-n", str(n))
        results[height] = medians(arguments.rounds, runs)
    keys = list(results[1])
    table(["seconds of HotSpot by pyramid height", *keys],
          [[height, *(f"{times[key][0]:.4f}" for key in keys)] for height, times in results.items()])
    return results


def measure_simulated(arguments):
    """Uses enough work-items to give each device some."""
    size = ["--size", "100000", "--repeat", "50", "--no-check"]
    results = medians(arguments.rounds, {n: lambda n=n: run("hash", size, "--simulate", str(n)) for n in (2, 64, 1024)})
    table(["devices, simulated", "launches of `hash` per second"],
          [[n, f"{1e6 / micros:.0f}"] for n, (_, micros) in results.items()])
    return {n: micros for n, (_, micros) in results.items()}


def count_kernels():
    """Counts the kernels of examples/ that can be split. The options are valid, but not always those of the programs."""
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
    print(f"\nOf {len(split) + len(whole)} kernels of examples/ {len(split)} can be split without access-functions.")
    for name in whole:
        print(f"- {name} can't be split")
    for name in failed:
        print(f"- {name} does not compile on its own")
    return {"split": split, "whole": whole, "failed": failed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    parser.add_argument("--rounds", type=int, default=1, help="how often to run each program; the tables show medians (default 1)")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", dest="sizes", action="store_const", const="small", default="usual",
                       help="small sizes, to test that the programs work")
    sizes.add_argument("--large", dest="sizes", action="store_const", const="large",
                       help="sizes for GPUs; results are not checked")
    parser.add_argument("--picture", metavar="FILE.png", help="draw how the time is spent (needs matplotlib, Debian: python3-matplotlib)")
    arguments = parser.parse_args()
    results = {"programs": measure_programs(arguments), "parts": measure_parts(arguments),
               "pyramids": measure_pyramids(arguments), "simulated": measure_simulated(arguments),
               "kernels": count_kernels()}
    (BUILD / "bench-results").mkdir(exist_ok=True)
    (BUILD / "bench-results/splitting.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
