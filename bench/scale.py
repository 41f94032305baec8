#!/usr/bin/env python3
"""Measures the cluster platform with thousands of devices on one machine.

One process acts as the last rank of many (cldist run --simulate). Measures the host time of a remote and of a dropped
command, the memory of a device and of a buffer, and 100 rounds of copies of 16 bytes among 512 devices. Counts the
commands of a process in each example program, like Table 6 of the SnuCL-D paper.

Environment: BUILD_DIR. Prints Markdown tables and writes the numbers to BUILD_DIR/bench-results/scale.json.
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


# Small sizes. The counts depend only on the numbers of devices and iterations.
PROGRAMS = {
    "vector_addition": ["--size", "100000"], "matrix_multiplication": ["--size", "128"], "nbody": ["--size", "1024"],
    "black_scholes": ["--size", "100000"], "binomial_option": ["--size", "100"], "coulombic_potential": ["--size", "32"],
    "conjugate_gradient": ["--size", "64"], "himeno_devices": ["--size", "S"], "matrix_broadcast": ["--size", "128"],
    "kmeans": ["--size", "10000"], "npb_ep": ["--size", "S"], "npb_cg": ["--size", "S"], "npb_mg": ["--size", "S"],
    "npb_ft": ["--size", "S"],
}


def run(processes, program, *arguments, rank=None, attach="program", wrong=False):
    """Runs a program as rank `rank` (default: the last) of that many processes. Returns its output and its counts."""
    counts = BUILD / "bench-results/scale-counts"
    counts.unlink(missing_ok=True)
    command = [str(BUILD / "tools/cldist/cldist"), "run", "--simulate", f"{processes}:{processes - 1 if rank is None else rank}:8",
               "--counts", str(counts), "--devices", "cpu", str(BUILD / program), *arguments]
    environment = {"POCL_MAX_PTHREAD_COUNT": "1", "CLDIST_PROFILE": "none", **os.environ, "CLDIST_ATTACH": attach}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode != 0 and not wrong:  # some programs fail because their results are zeros
        sys.exit(f"scale: {shlex.join(command)} failed with status {done.returncode}")
    return done.stdout, counts.read_text()


def lines(printed):
    """Parses the output of `run`, one JSON value per line."""
    return [json.loads(line) for line in printed[0].splitlines()]


def copies_of(program, devices, attach):
    printed = run(devices, program, "--no-check", attach=attach)
    copies = lines(printed)[0]
    return {"commands": copies["commands"], "seconds": copies["commands"] / copies["commands_per_second"], "account": printed[1]}


def commands_of(account):
    """Returns the numbers of local, remote and dropped commands of a process."""
    return [int(number) for number in re.search(r"(\d+) commands on this process's devices, (\d+) remote commands, (\d+) dropped", account).groups()]


def commands_table(processes):
    """Prints the commands of the last process in each program, without attachments and with automatic ones."""
    print(f"\n| program on {processes} devices | all commands | local | remote | dropped with CLDIST_ATTACH=auto | enqueued then |")
    print("|---|---:|---:|---:|---:|---:|")
    found = {}
    for name, arguments in PROGRAMS.items():
        check = [] if name.startswith("npb") else ["--no-check"]
        plain, auto = (commands_of(run(processes, f"examples/cluster/{name}", *arguments, *check, attach=attach, wrong=True)[1])
                       for attach in ("program", "auto"))
        if sum(plain) != sum(auto):
            sys.exit(f"scale: {name} has {sum(plain)} commands with CLDIST_ATTACH=program, and {sum(auto)} with auto")
        found[name] = {"program": plain, "auto": auto}
        print(f"| {name} | {sum(plain)} | {plain[0]} | {plain[1]} | {auto[2]} | {auto[0] + auto[1]} |", flush=True)
    return found


def table(title, counts, rows):
    print(f"\n| {title} | " + " | ".join(f"{count} devices" for count in counts) + " |\n|---|" + "---:|" * len(counts))
    for name, values in rows.items():
        print(f"| {name} | " + " | ".join(f"{value:.0f}" for value in values) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[4, 64, 512, 4096], help="numbers of devices")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each benchmark; the tables show medians")
    parser.add_argument("--copies", type=int, default=512, help="number of devices that copy to each other")
    parser.add_argument("--programs", type=int, default=16, help="number of devices for the programs")
    arguments = parser.parse_args()

    load = os.getloadavg()[0]
    print(f"Load average before the runs: {load:.1f}. Medians of {arguments.rounds} rounds.")
    costs, least, memory = {}, {}, {}
    for count in arguments.devices:
        for _ in range(arguments.rounds):
            for line in lines(run(count, "bench/cluster_enqueue")) + lines(run(count, "bench/cluster_attached", rank=0)):
                costs.setdefault(line["call"], {}).setdefault(count, []).append(line["ns"])
                if "least" in line:
                    least.setdefault(line["call"], {}).setdefault(count, []).append(line["least"])
        for line in lines(run(count, "bench/cluster_memory")):
            memory.setdefault(line["what"], {})[count] = line["bytes"]
    table("call on another process's device, ns", arguments.devices,
          {call: [statistics.median(ns[count]) for count in arguments.devices] for call, ns in costs.items()})
    table("fastest batch, ns", arguments.devices,
          {call: [min(ns[count]) for count in arguments.devices] for call, ns in least.items()})
    # The difference to the fewest devices leaves out all other memory of the process.
    devices = memory.pop("devices, with context and queues")
    fewest = min(arguments.devices)
    more = [count for count in arguments.devices if count > fewest]
    if more:
        table("bytes", more, {"a device, with its part of a context, and a queue":
                              [(devices[count] - devices[fewest]) / (count - fewest) for count in more]})
    table("bytes", arguments.devices,
          {what: [values[count] for count in arguments.devices] for what, values in memory.items()})
    ways = {"nothing attached": ("bench/cluster_copies", "program"), "CLDIST_ATTACH=auto": ("bench/cluster_copies", "auto"),
            "each buffer attached to its device": ("bench/cluster_copies_attached", "program")}
    copies = {way: copies_of(program, arguments.copies, attach) for way, (program, attach) in ways.items()}
    print(f"\n| copies of 16 bytes among {arguments.copies} devices | copies | s | local | remote | dropped |\n|---|---:|---:|---:|---:|---:|")
    for way, of in copies.items():
        print(f"| {way} | {of['commands']:.0f} | {of['seconds']:.2f} | " + " | ".join(map(str, commands_of(of["account"]))) + " |")
    programs = commands_table(arguments.programs)
    results = {"load": load, "ns": costs, "least ns": least, "bytes": memory, "bytes of all devices": devices, "copies": copies,
               "commands": programs}
    (BUILD / "bench-results/scale.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
