#!/usr/bin/env python3
"""Compares the host programs of examples/himeno on two processes.

They run in shared memory. As root, and if CLDIST_NETLAB names a network lab script, they also run over shaped links.
All variants of a table row take turns in one job, so their ratios can be compared. The tables show medians.

Environment: BUILD_DIR, CLDIST_MPIRUN (how to start processes), CLDIST_NETLAB (optional).
Prints a Markdown table and writes the numbers to BUILD_DIR/bench-results/himeno-*.json.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

import links


def run(launcher, size, arguments, link, name):
    build = pathlib.Path(os.environ["BUILD_DIR"])
    results = build / f"bench-results/himeno-{name}-{size}.json"
    results.parent.mkdir(exist_ok=True)
    command = [*launcher, str(build / "examples/himeno/himeno"), "--size", size, "--iterations", str(arguments.iterations),
               "--rounds", str(arguments.rounds), "--check", "--json", str(results)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nhimeno: {shlex.join(command)} failed")
    result = json.loads(results.read_text())
    result["link"] = link
    results.write_text(json.dumps(result, ensure_ascii=False, indent=1))
    return result


def rows(link, result):
    speed = {variant["name"]: variant["mflops"] for variant in result["variants"]}
    for variant in result["variants"]:
        yield (f"| {link} | {result['size']} | {variant['name']} | {variant['mflops']:.0f} "
               f"| {variant['mflops'] / speed['serial']:.3f} | {variant['mflops'] / speed['handopt']:.3f} "
               f"| {variant['mflops'] / speed['handtuned']:.3f} "
               f"| {variant['computing'] * 1e3:.3f} ms | {variant['exposed'] * 1e3:.3f} ms |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["S", "M"])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()

    # If PoCL is the device, each process would use all cores, and the two would slow each other
    # down.
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(max(1, os.cpu_count() // 2)))

    print(f"Himeno, 2 processes, {arguments.iterations} iterations, median of {arguments.rounds} rounds, every run "
          f"checked; PoCL with {os.environ['POCL_MAX_PTHREAD_COUNT']} thread(s) in each process.")
    print("Times are per iteration, the mean of both ranks. Exposed: communication that computation does not hide.\n")
    print("| link | size | variant | MFLOPS | : serial | : handopt | : handtuned | computing | exposed |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|")

    def measure(link, name, launcher):
        for size in arguments.sizes:
            print(*rows(link, run(launcher, size, arguments, link, name)), sep="\n", flush=True)

    measure("shared memory", "shared", links.shared_memory(2))
    for link, name, launcher in links.shaped("h"):
        measure(link, name, launcher)


if __name__ == "__main__":
    main()
