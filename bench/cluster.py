#!/usr/bin/env python3
"""Compares the cluster platform with the device's own OpenCL platform.

Measures the programs of examples/cluster, the cost of enqueueing commands, and copies between devices.
Each program runs natively and on 1, 2 and more processes. The runs take turns, and the tables show medians.
The processes share the cores of one host, so each run uses one thread per device. The programs check their results.

Environment: BUILD_DIR. Prints Markdown tables and writes the numbers to BUILD_DIR/bench-results/cluster.json.
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
# Name: (default arguments, arguments of --gpu). With its default size, a program takes about a
# second on one core of 2020.
PROGRAMS = {
    "vector_addition": (["--size", "30000000"], ["--size", "300000000", "--no-check"]),
    "matrix_multiplication": (["--size", "1024"], ["--size", "16384", "--no-check"]),
    "nbody": (["--iterations", "80"], ["--size", "524288", "--no-check"]),
    "black_scholes": (["--size", "6000000"], ["--size", "100000000", "--no-check"]),
    "binomial_option": (["--size", "4000"], ["--size", "400000", "--no-check"]),
    "coulombic_potential": (["--iterations", "8"], ["--size", "256", "--iterations", "20", "--no-check"]),
    "conjugate_gradient": (["--size", "512", "--iterations", "400"], ["--size", "2048", "--iterations", "400", "--no-check"]),
    "himeno_devices": (["--iterations", "400"], ["--size", "L", "--iterations", "400", "--no-check"]),
    "matrix_broadcast": (["--size", "1024"], ["--size", "16384", "--no-check"]),
    "kmeans": (["--size", "1000000"], ["--size", "20000000", "--no-check"]),
    "npb_ep": (["--size", "S"], ["--size", "A"]),
    "npb_cg": (["--size", "W"], ["--size", "A"]),
    "npb_mg": (["--size", "W"], ["--size", "A"]),
    "npb_ft": (["--size", "W"], ["--size", "A"]),
}
LINE = re.compile(r"^(\S+) (.+), (\d+) devices?: ([\d.]+) s, ([\d.]+) GFLOPS, (.+)$", re.MULTILINE)


def run(program, processes, **settings):
    """Runs a program natively (0 processes) or on the platform, and returns its output."""
    command = [str(BUILD / program[0]), *program[1:]]
    if processes:
        command = [str(BUILD / "tools/cldist/cldist"), "run", "-n", str(processes), "--", *command]
    environment = {"POCL_MAX_PTHREAD_COUNT": "1", "CLDIST_PROFILE": "none", **os.environ, **settings}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"cluster: {shlex.join(command)} failed with status {done.returncode}")
    return done.stdout


def measure_programs(arguments, counts):
    """Returns, for each program, its size and the times of all rounds by number of processes."""
    results = {}
    for name, sizes in PROGRAMS.items():
        if arguments.only and name not in arguments.only:
            continue
        times = {count: [] for count in [0, *counts]}
        for _ in range(arguments.rounds):
            for count in times:
                extra = ["--devices", "1"] if count == 0 else []
                line = LINE.search(run([f"examples/cluster/{name}", *sizes[arguments.gpu], *extra], count))
                if line is None:
                    sys.exit(f"cluster: {name} printed no result")
                times[count].append(float(line[4]))
        results[name] = {"size": line[2], "seconds": times}
        print(f"{name} done", file=sys.stderr)
    return results


def print_programs(results, counts):
    heads = " | ".join(f"{n} process" + ("es" if n > 1 else "") for n in counts)
    print(f"| program | size | native, s | {heads} | 1 process / native |")
    print("|---|---|---|" + "---|" * (len(counts) + 1))
    for name, result in results.items():
        medians = {count: statistics.median(times) for count, times in result["seconds"].items()}
        cells = [f"{medians[n]:.3f} ({medians[counts[0]] / medians[n]:.2f} x)" for n in counts]
        ratio = statistics.median(one / native for one, native in zip(result["seconds"][counts[0]], result["seconds"][0]))
        print(f"| {name} | {result['size']} | {medians[0]:.3f} | {' | '.join(cells)} | {ratio:.3f} |")


def measure_calls(rounds):
    """Returns the nanoseconds of each call, natively and on one process."""
    times = {}
    for _ in range(rounds):
        for count in (0, 1):
            for line in run(["bench/cluster_enqueue", "--devices", "1"], count).splitlines():
                entry = json.loads(line)
                times.setdefault(entry["call"], {0: [], 1: []})[count].append(entry["ns"])
    return times


def print_calls(times):
    print("\n| call | native, ns | 1 process, ns | ratio |\n|---|---|---|---|")
    for call, both in times.items():
        native, one = (statistics.median(both[count]) for count in (0, 1))
        print(f"| {call} | {native:.0f} | {one:.0f} | {statistics.median(b / a for a, b in zip(both[0], both[1])):.2f} |")


def measure_attached(rounds, counts):
    """Returns the nanoseconds of commands on a device of the other process, by total number of devices."""
    times = {}
    for _ in range(rounds):
        for count in counts:
            output = run(["bench/cluster_attached"], 2, POCL_DEVICES=" ".join(["basic"] * (count // 2)))
            for line in output.splitlines():
                entry = json.loads(line)
                times.setdefault(entry["call"], {}).setdefault(count, []).append(entry["ns"])
    return times


def print_attached(times, counts):
    print(f"\n| command on another process's device, ns | {' | '.join(f'{n} devices' for n in counts)} |\n|---|{'---|' * len(counts)}")
    for call, both in times.items():
        print(f"| {call} | {' | '.join(f'{statistics.median(both[n]):.0f}' for n in counts)} |")


def measure_copies(rounds, sizes):
    """Returns the microseconds of a copy by (devices, bytes): in one native process, and with one process per device.

    The native process sees as many devices because PoCL shows its device that many times."""
    times = {}
    for _ in range(rounds):
        for count, size in sizes:
            program = ["bench/cluster_copies", "--size", str(size // 4), "--iterations", "100" if size < 1 << 20 else "20"]
            for processes in (0, count):
                output = run(program, processes, POCL_DEVICES=" ".join(["pthread"] * count if not processes else ["pthread"]))
                times.setdefault((count, size), {}).setdefault(processes, []).append(json.loads(output)["us_per_command"])
    return times


def print_copies(times):
    print("\n| devices | bytes | one native process, µs per copy | one process per device, µs per copy | copies per second | GB/s |\n|---|---|---|---|---|---|")
    for (count, size), both in times.items():
        native, spread = (statistics.median(both[processes]) for processes in (0, count))
        print(f"| {count} | {size} | {native:.1f} | {spread:.1f} | {1e6 / spread:.0f} | {size / spread / 1e3:.3g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes; the first must be 1")
    parser.add_argument("--copies", type=int, nargs="*", default=[2, 4, 8], help="numbers of devices for copies of 16 bytes")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1 << 18, 1 << 20, 1 << 24, 1 << 26], help="sizes in bytes of copies between two devices")
    parser.add_argument("--attached", type=int, nargs="*", default=[2, 64], help="numbers of devices for commands on attached buffers")
    parser.add_argument("--no-programs", action="store_true", help="measure only calls and copies")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, help="measure only these programs")
    parser.add_argument("--gpu", action="store_true", help="sizes for GPUs")
    parser.add_argument("--no-calls", action="store_true", help="programs only")
    arguments = parser.parse_args()
    counts = arguments.processes
    load = os.getloadavg()[0]

    results = {}
    if not arguments.no_programs:
        results["programs"] = measure_programs(arguments, counts)
    print(f"Load average before the runs: {load:.1f}. Medians of {arguments.rounds} rounds.\n")
    if not arguments.no_programs:
        print_programs(results["programs"], counts)
    if not arguments.no_calls:
        results["calls"] = measure_calls(arguments.rounds)
        print_calls(results["calls"])
        results["attached"] = measure_attached(arguments.rounds, arguments.attached)
        print_attached(results["attached"], arguments.attached)
        copies = measure_copies(arguments.rounds, [(n, 16) for n in arguments.copies] + [(2, size) for size in arguments.sizes])
        results["copies"] = [{"devices": n, "bytes": size, "us": both} for (n, size), both in copies.items()]
        print_copies(copies)
    folder = BUILD / "bench-results"
    folder.mkdir(exist_ok=True)
    (folder / "cluster.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
