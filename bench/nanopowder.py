#!/usr/bin/env python3
"""Compares the host programs of examples/nanopowder.

They run on two and four processes in shared memory. As root, and if CLDIST_NETLAB names a network lab script, they
also run on two processes over shaped links. The versions of a table row take turns in one job, so their ratios can
be compared. The tables show medians. Every run is checked.

Environment: BUILD_DIR, CLDIST_MPIRUN (how to start processes), CLDIST_NETLAB (optional).
Prints a Markdown table and writes the numbers to BUILD_DIR/bench-results/nanopowder-*.json.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

import links


def run(launcher, arguments, link, name):
    build = pathlib.Path(os.environ["BUILD_DIR"])
    results = build / f"bench-results/nanopowder-{name}.json"
    results.parent.mkdir(exist_ok=True)
    command = [*launcher, str(build / "examples/nanopowder/nanopowder"), "--bins", str(arguments.bins), "--steps",
               str(arguments.steps), "--rounds", str(arguments.rounds), "--verify", "--json", str(results)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nnanopowder: {shlex.join(command)} failed")
    result = json.loads(results.read_text())
    result["link"] = link
    baseline = result["versions"][0]["step"]
    result["ratios"] = [{"name": f"nanopowder, {result['processes']} processes, {link}, {version['name']} : baseline",
                         "value": baseline / version["step"], "better": "higher"} for version in result["versions"][1:]]
    results.write_text(json.dumps(result, ensure_ascii=False, indent=1))
    return result


def rows(link, result):
    baseline = result["versions"][0]["step"]
    for version in result["versions"]:
        times = " | ".join(f"{version[what] * 1e3:.1f} ms" for what in ("step", "matrix", "kernel", "exposed"))
        yield (f"| {link} | {result['processes']} | {version['name']} | {times} | {baseline / version['step']:.3f} "
               f"| {version['mass_error']:.0e} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bins", type=int, default=3240)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    # If PoCL is the device, each process would use all cores, and the processes would slow each
    # other down.
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(max(1, os.cpu_count() // 2)))

    print(f"Nanopowder, {arguments.bins} bins, a matrix of {4e-6 * arguments.bins**2:.1f} MB, {arguments.steps} steps, "
          f"median of {arguments.rounds} rounds, every run checked; PoCL with "
          f"{os.environ['POCL_MAX_PTHREAD_COUNT']} thread(s) in each process.")
    print("Times are per step. Matrix: rank 0 computes the matrix. Kernel: the mean of all ranks. Exposed: the step minus "
          "the longer of these two.\n")
    print("| link | processes | version | step | matrix | kernel | exposed | : baseline | mass error |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")

    def measure(link, name, launcher):
        print(*rows(link, run(launcher, arguments, link, name)), sep="\n", flush=True)

    for processes in (2, 4):
        measure("shared memory", f"shared-{processes}", links.shared_memory(processes))
    for link, name, launcher in links.shaped("n"):
        measure(link, name, launcher)


if __name__ == "__main__":
    main()
