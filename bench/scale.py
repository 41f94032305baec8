#!/usr/bin/env python3
"""The cluster platform on a thousand devices, on one machine: one process plays the last rank of many (cldist run --simulate).

What a virtual command costs the host thread, what a device and a buffer take, and 100 rounds of copies of 16 bytes among
512 devices. Environment: BUILD_DIR. Prints Markdown tables; the numbers also go to BUILD_DIR/bench-results/scale.json.
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


def run(processes, program, *arguments):
    """The lines of JSON that a program prints in the last of so many processes, and what that has counted."""
    counts = BUILD / "bench-results/scale-counts"
    counts.unlink(missing_ok=True)
    command = [str(BUILD / "tools/cldist/cldist"), "run", "--simulate", f"{processes}:{processes - 1}:8", "--counts", str(counts),
               "--devices", "cpu", str(BUILD / "bench" / program), *arguments]
    environment = {"POCL_MAX_PTHREAD_COUNT": "1", "CLDIST_PROFILE": "none", **os.environ}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"scale: {shlex.join(command)} failed with status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()], counts.read_text()


def table(title, counts, rows):
    print(f"\n| {title} | " + " | ".join(f"{count} devices" for count in counts) + " |\n|---|" + "---:|" * len(counts))
    for name, values in rows.items():
        print(f"| {name} | " + " | ".join(f"{value:.0f}" for value in values) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[4, 64, 512, 4096], help="numbers of devices")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, whose median counts")
    parser.add_argument("--copies", type=int, default=512, help="devices that copy to each other")
    arguments = parser.parse_args()

    costs, memory = {}, {}
    for count in arguments.devices:
        for _ in range(arguments.rounds):
            for line in run(count, "cluster_enqueue")[0]:
                costs.setdefault(line["call"], {}).setdefault(count, []).append(line["ns"])
        for line in run(count, "cluster_memory")[0]:
            memory.setdefault(line["what"], {})[count] = line["bytes"]
    table("ns of a call on another's device", arguments.devices,
          {call: [statistics.median(ns[count]) for count in arguments.devices] for call, ns in costs.items()})
    # What a process has besides is in the figure for the fewest devices.
    devices = memory.pop("devices, with context and queues")
    fewest = min(arguments.devices)
    more = [count for count in arguments.devices if count > fewest]
    if more:
        table("bytes", more, {"a device, with its part of a context, and a queue":
                              [(devices[count] - devices[fewest]) / (count - fewest) for count in more]})
    table("bytes", arguments.devices,
          {what: [values[count] for count in arguments.devices] for what, values in memory.items()})
    copies, account = run(arguments.copies, "cluster_copies", "--no-check")
    print(f"\n{copies[0]['commands']:.0f} copies of 16 bytes among {arguments.copies} devices: "
          f"{copies[0]['commands'] / copies[0]['commands_per_second']:.2f} s\n\n{account}")
    results = {"ns": costs, "bytes": memory, "bytes of all devices": devices, "copies": copies[0]}
    (BUILD / "bench-results/scale.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
