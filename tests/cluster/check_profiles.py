#!/usr/bin/env python3
"""Runs Himeno on the platform's two devices, with a different profile for each process. Checks that every halo is sent in
the blocks of its sender's profile.

    check_profiles.py FOLDER CLDIST VENDORS SETTINGS_BY_RANK PROGRAM -- MPIRUN...

VENDORS is the folder with the platform's .icd file. The program checks its result.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

HALO = 64 * 128 * 4  # bytes, for Himeno's size S
# Block size of each rank, in bytes: four equal blocks, or three of which the last is smaller.
BLOCKS = [HALO // 4, HALO // 3 + 1]
WAY = """
[route.same-host]
when = "2026-01-02T03:04:05Z"
between = "two processes"

[[route.same-host.way]]
path = "{path}"
maps = true
block = {block}
depth = 2
bytes = [1024, 1048576]
microseconds = [1.0, 1000.0]
"""


def run(command, **settings):
    subprocess.run(command, env=os.environ | settings, check=True, timeout=100)


def make_profiles(folder, cldist):
    """Creates a profile for each rank and for this system, which `cldist tune` describes."""
    measured = folder / "measured.toml"
    run([cldist, "tune", "--device", "cpu", "--seconds", "1", "--force", "--output", str(measured)], TMPDIR=str(folder))
    system = measured.read_text(encoding="utf-8").split("\n[[")[0].split("\n[route")[0]
    for rank, path in enumerate(["chunked", "mapped"]):
        profile = folder / f"{rank}.toml"
        profile.write_text(system + WAY.format(path=path, block=BLOCKS[rank]), encoding="utf-8")
        yield f"CLDIST_PROFILE={profile}"


def blocks_of_halos(trace):
    """The (direction, blocks, path) of each halo that a process sent or received."""
    blocks = collections.Counter(event["id"] for event in trace if event["ph"] == "b" and event["name"] == "message")
    for event in trace:
        if event["ph"] == "e" and event["name"] in ("send", "recv") and event["args"]["bytes"] == HALO:
            yield event["name"], blocks[event["id"]], event["args"]["path"]


def main():
    folder, cldist, vendors, settings_by_rank, program, _, *mpirun = sys.argv[1:]
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    first, second = make_profiles(folder, cldist)
    run([*mpirun, "-n", "2", sys.executable, settings_by_rank, first, "/", second, "--",
         program, "--size", "S", "--iterations", "5"], OCL_ICD_VENDORS=vendors, CLDIST_TRACE=str(folder), CLDIST_PATH="auto")
    failed = 0
    for rank in (0, 1):
        trace = json.loads((folder / f"cldist-trace-{rank}.json").read_text(encoding="utf-8"))["traceEvents"]
        found = collections.Counter(blocks_of_halos(trace))
        print(f"rank {rank}: {dict(found)}")
        of_sender = {"send": -(-HALO // BLOCKS[rank]), "recv": -(-HALO // BLOCKS[1 - rank])}
        own_path = ["chunked", "mapped"][rank]
        if {(name, of_sender[name], own_path) for name in ("send", "recv")} != set(found):
            print(f"FAILED: expected of rank {rank}: {of_sender} blocks, path {own_path}")
            failed = 1
    return failed


sys.exit(main())
