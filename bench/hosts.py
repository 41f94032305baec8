#!/usr/bin/env python3
"""Compares the kinds of host: native, every process runs the program (replicated), or rank 0 alone runs it (central).

Measures programs of examples/cluster, copies between devices, calls per second and their size on the network,
the time of a call that waits for nothing, and a program with one thread per device. Simulated runs show the work
of rank 0 among many processes. All runs take turns, and the tables show medians.

Environment: BUILD_DIR. Prints Markdown tables and writes the numbers to BUILD_DIR/bench-results/hosts.json.
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
PROGRAMS = {
    "nbody": ["--iterations", "40"],
    "matrix_multiplication": ["--size", "512"],
    "conjugate_gradient": ["--size", "256", "--iterations", "200"],
    "himeno_devices": ["--iterations", "100"],
    "kmeans": ["--size", "300000"],
}
# Each device has so few work-items that the host decides the time.
SIMULATED = {
    "nbody": ["--size", "16384", "--iterations", "3"],
    "conjugate_gradient": ["--size", "1024", "--iterations", "10"],
    "kmeans": ["--size", "300000"],
}
LINE = re.compile(r"^(\S+) (.+), (\d+) devices?: ([\d.]+) s, ([\d.]+) GFLOPS, (.+)$", re.MULTILINE)
HOSTS = ["native", "replicated", "central"]


def run(host, processes, command, simulated=False, **settings):
    """Runs a program on that many processes and returns its output. If `simulated`, only rank 0 exists."""
    environment = {"POCL_MAX_PTHREAD_COUNT": "1", "CLDIST_PROFILE": "none", **os.environ, **settings}
    if host == "native":
        environment["POCL_DEVICES"] = " ".join(["pthread"] * processes)
    else:
        tool = str(BUILD / "tools/cldist/cldist")
        others = ["--simulate", str(processes), "--counts", "/dev/null"] if simulated else ["-n", str(processes)]
        command = [tool, "run", "--host-mode", host, *others, "--", *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"hosts: {shlex.join(command)} failed with status {done.returncode}")
    return done.stdout


def draw(results, picture):
    """Draws the times of the simulated programs over the number of processes."""
    pyplot = pictures.find_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(1, len(SIMULATED), figsize=(4.2 * len(SIMULATED), 3.6))
    for axis, name in zip(axes, SIMULATED):
        counts = sorted(count for key, count in results if key == f"{name}, s")
        for host, mark in ("replicated", "o-"), ("central", "s-"):
            axis.loglog(counts, [1e3 * results[f"{name}, s", count][host] for count in counts], mark, base=2, label=host)
        axis.set_yscale("log", base=10)
        axis.set_title(name)
        axis.set_xlabel("processes, simulated")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("time of rank 0, ms")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(picture, format="png", dpi=110)


def measure(names, counts, rounds, take, hosts=HOSTS):
    """Calls `take(name, host, count)`, which returns a dict of numbers, for all combinations in turn.

    Returns the medians by name, count and host."""
    results = {}
    for _ in range(rounds):
        for name in names:
            for count in counts:
                for host in hosts:
                    for key, value in take(name, host, count).items():
                        results.setdefault((key, count), {}).setdefault(host, []).append(value)
    return {what: {host: statistics.median(values) for host, values in of.items()} for what, of in results.items()}


def print_table(title, results):
    print(f"\n{title}\n\n| | devices | {' | '.join(HOSTS)} |\n|---|---|{'---|' * len(HOSTS)}")
    for (key, count), of in results.items():
        print(f"| {key} | {count} | " + " | ".join(f"{of[host]:.6g}" if host in of else "–" for host in HOSTS) + " |")


def seconds_of(name, printed):
    return {f"{name}, s": float(LINE.search(printed)[4])}


def program(name, host, count):
    return seconds_of(name, run(host, count, [str(BUILD / "examples/cluster" / name), *PROGRAMS[name]]))


def simulated(name, host, count):
    """Returns the time of rank 0. The other ranks do not exist: their results are assumed."""
    command = [str(BUILD / "examples/cluster" / name), *SIMULATED[name], "--no-check"]
    return seconds_of(name, run(host, count, command, simulated=True))


def calls(_, host, count):
    """Returns the numbers of bench/cluster_hosts and, for the central host, the size of a call on the network."""
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder) / "counts"
        command = [str(BUILD / "bench/cluster_hosts"), *(["--no-check"] if host == "replicated" else [])]
        text = run(host, count, command, **({"CLDIST_COUNTS": str(counts)} if host == "central" else {}))
        numbers = {line["what"]: line["value"] for line in map(json.loads, text.splitlines())}
        if host == "central":
            worker = counts.read_text().split("cldist: rank 1 of")[1].split("cldist: rank")[0]
            made = int(re.search(r"(\d+) OpenCL calls", worker)[1])
            messages, size = map(int, re.search(r"calls +received +(\d+) +(\d+)", worker).groups())
            numbers["bytes per call sent to a process"] = size / made
            numbers["calls per message"] = made / messages
    return numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--simulate", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], metavar="PROCESSES")
    kinds = ["programs", "copies", "calls", "simulated"]
    parser.add_argument("--only", choices=kinds, nargs="+", default=kinds)
    parser.add_argument("--picture", metavar="FILE", help="draw the times of the simulated programs")
    arguments = parser.parse_args()
    results = {}
    if "calls" in arguments.only:
        results["calls"] = measure([""], arguments.processes, arguments.rounds, calls)
        print_table("Calls", results["calls"])
    if "copies" in arguments.only:
        def copies(_, host, count):
            found = json.loads(run(host, count, [str(BUILD / "bench/cluster_copies"), "--iterations", "20"]))
            return {f"us per copy of {found['bytes']} bytes": found["us_per_command"]}
        results["copies"] = measure([""], arguments.processes, arguments.rounds, copies)
        print_table("Copies between devices", results["copies"])
    if "programs" in arguments.only:
        results["programs"] = measure(PROGRAMS, arguments.processes, arguments.rounds, program)
        print_table("Programs", results["programs"])
    if "simulated" in arguments.only:
        results["simulated"] = measure(SIMULATED, arguments.simulate, arguments.rounds, simulated, ["replicated", "central"])
        print_table("Rank 0 of many simulated processes", results["simulated"])
        if arguments.picture:
            draw(results["simulated"], arguments.picture)
    folder = BUILD / "bench-results"
    folder.mkdir(exist_ok=True)
    (folder / "hosts.json").write_text(json.dumps(
        {table: {f"{key}, {count}": of for (key, count), of in of_table.items()} for table, of_table in results.items()},
        indent=1))


if __name__ == "__main__":
    main()
