#!/usr/bin/env python3
"""Compares copies between several devices and pageable memory of the program: natively, on the cluster platform with one
process, and with a central host and one process per device.

Measures a halo exchange with one thread per device (cluster_halo), copies of all devices at once (cluster_rates), and
the commands per second of several threads (cluster_hosts). All runs take turns, and the tables show medians.

Environment: BUILD_DIR. The native platform must be the first one. Prints Markdown tables and writes the numbers to
BUILD_DIR/bench-results/host-memory.json.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
HOSTS = ["native", "one process", "central host"]


def run(host, devices, program, *arguments):
    """Runs a benchmark and returns its records."""
    tool = [str(BUILD / "tools/cldist/cldist"), "run"]
    launch = {"native": [], "one process": [*tool, "-n", "1", "--"],
              "central host": [*tool, "--host-mode", "central", "-n", str(devices), "--"]}[host]
    command = [*launch, str(BUILD / "bench" / program), *arguments]
    here = 1 if host == "central host" else devices  # of PoCL, per process
    environment = {"CLDIST_PROFILE": "none", "POCL_DEVICES": " ".join(["pthread"] * here), **os.environ}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"host_memory: {shlex.join(command)} failed with status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 64, 128], help="edges of the cubes of cells")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    results, sums = {}, {}
    for _ in range(arguments.rounds):
        for host in HOSTS:
            found = {}
            for side in arguments.sides:
                wanted = ["--size", str(side), "--iterations", str(arguments.steps), "--repeat", "3", "--no-check"]
                halo = run(host, arguments.devices, "cluster_halo", *wanted)[0]
                found[f"halo exchange, {side}³ cells per device, M updates/s"] = halo["mega_updates"]
                if sums.setdefault(side, halo["sum"]) != halo["sum"]:
                    sys.exit(f"host_memory: the check sum with {host} and {side}³ cells is {halo['sum']}, expected {sums[side]}")
            for rate in run(host, arguments.devices, "cluster_rates"):
                for direction in "write", "read", "memcpy":
                    found[f"{direction} of {rate['bytes'] >> 10} KiB by all devices, GB/s"] = rate[direction]
            for threads in run(host, arguments.devices, "cluster_hosts", "--repeat", "3"):
                if "threads" in threads["what"]:
                    found[threads["what"]] = threads["value"]
            for what, value in found.items():
                results.setdefault(what, {}).setdefault(host, []).append(value)
    medians = {what: {host: statistics.median(values) for host, values in of.items()} for what, of in results.items()}
    print(f"| {arguments.devices} devices | {' | '.join(HOSTS)} |\n|---|{'---:|' * len(HOSTS)}")
    for what, of in medians.items():
        cells = [f"{of['native']:.4g}", *(f"{of[host]:.4g} ({of[host] / of['native']:.2f})" for host in HOSTS[1:])]
        print(f"| {what} | {' | '.join(cells)} |")
    folder = BUILD / "bench-results"
    folder.mkdir(exist_ok=True)
    (folder / "host-memory.json").write_text(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
