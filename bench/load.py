#!/usr/bin/env python3
"""Measures the cost of a command while many wait, and beside busy loops.

Up to 100,000 commands wait. Chains, exchanges and copies of the cluster platform run beside busy loops. Chains,
exchanges and files are compared with plain OpenCL, MPI and files, the copies with a quiet machine. Runs take turns,
and the tables show medians.

Environment: BUILD_DIR, CLDIST_MPIRUN (how to start processes).
Prints Markdown tables and writes the numbers to BUILD_DIR/bench-results/load.json.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
LOOP = "import os\nos.nice(19)\nwhile True: pass"


def microseconds(case, count, native):
    """Returns the microseconds per command."""
    command = [*shlex.split(os.environ.get("CLDIST_MPIRUN", "mpirun")), "-n", "2", str(BUILD / "bench/load"), case, str(count),
               *(["--native"] if native else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"load: {shlex.join(command)} failed")
    return float(done.stdout.split()[-1])


def cluster_microseconds(program, count, processes):
    command = [str(BUILD / "bench/cluster_waits"), program, str(count)]
    if processes:
        command = [str(BUILD / "tools/cldist/cldist"), "run", "-n", str(processes), "--", *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={"POCL_MAX_PTHREAD_COUNT": "1", **os.environ})
    if done.returncode != 0:
        sys.exit(f"load: {shlex.join(command)} failed")
    return float(done.stdout.split()[-1])


def copies_microseconds(processes):
    """Returns the microseconds of a 16-byte copy between the devices of that many processes."""
    command = [str(BUILD / "tools/cldist/cldist"), "run", "-n", str(processes), "--", str(BUILD / "bench/cluster_copies"),
               "--iterations", "200"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={"POCL_MAX_PTHREAD_COUNT": "1", **os.environ})
    if done.returncode != 0:
        sys.exit(f"load: {shlex.join(command)} failed")
    return json.loads(done.stdout)["us_per_command"]


@contextlib.contextmanager
def busy_loops(count):
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(runs, rounds):
    times = {}
    for _ in range(rounds):
        for name, run in runs.items():
            times.setdefault(name, []).append(run())
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", type=int, default=2 * os.cpu_count(), help="number of busy loops, which run with the lowest priority")
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 10000, 100000])
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"## load\n\n- load before: {load:.2f}\n- rounds: {arguments.rounds}, medians\n")
    if load > os.cpu_count() / 2:
        print("- **the machine was busy with other programs: measure again on a quiet machine**\n")
    results = []

    print("| pending | " + " | ".join(f"{n}, µs per command" for n in arguments.counts) + " | last : first | plain, last : first |")
    print("|---|" + "---:|" * (len(arguments.counts) + 2))
    for case in ("chain", "receives", "files"):
        runs = {(count, native): lambda count=count, native=native: microseconds(case, count, native)
                for count in arguments.counts for native in (False, True)}
        times = measure(runs, arguments.rounds)
        first, last = arguments.counts[0], arguments.counts[-1]
        growth = {native: times[last, native] / times[first, native] for native in (False, True)}
        print(f"| {case} | " + " | ".join(f"{times[n, False]:.1f} (plain {times[n, True]:.1f})" for n in arguments.counts) +
              f" | {growth[False]:.2f} | {growth[True]:.2f} |", flush=True)
        results.append({"name": f"load, {case}, {last} pending : {first}", "value": growth[False], "better": "lower"})

    print(f"\n| beside {arguments.loops} loops | quiet, µs | busy, µs | busy : quiet | plain, busy, µs |\n|---|---:|---:|---:|---:|")
    for case, count in (("chain", 2000), ("exchange", 5000)):
        def busy(native):
            with busy_loops(arguments.loops):
                return microseconds(case, count, native)
        times = measure({"quiet": lambda: microseconds(case, count, False), "busy": lambda: busy(False),
                         "plain": lambda: busy(True)}, arguments.rounds)
        print(f"| {case} | {times['quiet']:.1f} | {times['busy']:.1f} | {times['busy'] / times['quiet']:.2f} | {times['plain']:.1f} |",
              flush=True)
        results.append({"name": f"load, {case}, busy : quiet", "value": times["busy"] / times["quiet"], "better": "lower"})

    print("\n| cluster platform, 2 processes, beside the loops | native, µs | 2 processes, µs | ratio |\n|---|---:|---:|---:|")
    for program in ("read", "poll", "wait"):
        def crowded(processes):
            with busy_loops(arguments.loops):
                return cluster_microseconds(program, 1000, processes)
        times = measure({processes: lambda processes=processes: crowded(processes) for processes in (0, 2)}, arguments.rounds)
        print(f"| {program} | {times[0]:.1f} | {times[2]:.1f} | {times[2] / times[0]:.2f} |", flush=True)
        results.append({"name": f"load, cluster, {program}, busy, 2 processes : native", "value": times[2] / times[0], "better": "lower"})

    print("\n| 16-byte copies, beside the loops | quiet, µs | busy, µs | busy : quiet | quiet, commands/s |\n|---|---:|---:|---:|---:|")
    for processes in (2, 2 * os.cpu_count()):  # not more processes than cores, then more
        def busy_copies(processes=processes):
            with busy_loops(arguments.loops):
                return copies_microseconds(processes)
        times = measure({"quiet": lambda processes=processes: copies_microseconds(processes), "busy": busy_copies},
                        arguments.rounds)
        print(f"| {processes} processes | {times['quiet']:.1f} | {times['busy']:.1f} | {times['busy'] / times['quiet']:.2f} | "
              f"{1e6 / times['quiet']:.0f} |", flush=True)
        results.append({"name": f"load, copies, {processes} processes, µs", "value": times["quiet"], "better": "lower"})
        results.append({"name": f"load, copies, {processes} processes, busy : quiet", "value": times["busy"] / times["quiet"],
                        "better": "lower"})

    folder = BUILD / "bench-results"
    folder.mkdir(exist_ok=True)
    (folder / "load.json").write_text(json.dumps({"bench": "load", "label": "", "rows": [], "ratios": results}))


if __name__ == "__main__":
    main()
