#!/usr/bin/env python3
"""Runs OpenCL programs that end without exit(), or are interrupted, with `cldist run` in both host modes.

    check_ends.py CLDIST openmpi|mpich PROGRAM

PROGRAM is tests/cluster/ending.cpp.
"""

import os
import signal
import subprocess
import sys

CLDIST, MPI, PROGRAM = sys.argv[1:]
SECONDS = 60
complaints = []


def expect(holds, what, *details):
    if not holds:
        complaints.append(what)
        print("FAILED:", what, *details, sep="\n  ")


def command(mode, *program):
    return [CLDIST, "run", "--host-mode", mode, "-n", "2", "--devices", "cpu", *program]


def check_end(mode, way):
    done = subprocess.run(command(mode, PROGRAM, way), stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False,
                          timeout=SECONDS)
    lines = [line for line in done.stderr.splitlines() if line != "released"]
    expect(done.returncode == 0 and done.stdout == "fine\n" and not lines, f"{mode}: a program succeeds after {way}", done)


def check_interrupt(mode):
    """The program gets SIGINT once and continues. The job's status is the program's."""
    with subprocess.Popen(command(mode, PROGRAM, "interrupted"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as job:
        expect(job.stdout.readline() == "ready\n", f"{mode}: the program starts")
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=SECONDS)
    # MPICH's mpirun prints that it sends the signal.
    lines = [line for line in out.splitlines() if not line.startswith("[mpiexec@")]
    expect(lines == ["interrupted 1 time"], f"{mode}: SIGINT arrives once", job.returncode, out, err)
    # MPICH's mpirun may return its own status.
    statuses = (0,) if MPI == "openmpi" else (0, 128 + signal.SIGINT)
    expect(job.returncode in statuses and not err, f"{mode}: the interrupted program's status is the job's", job.returncode, err)


def main():
    for mode in "replicated", "central":
        for way in "_exit", "quick_exit", "exec", "children":
            check_end(mode, way)
    # With a replicated host the ranks would be interrupted at different calls.
    check_interrupt("central")
    for way in "daemon", "daemon-joins-first":
        check_end("central", way)
    return bool(complaints)


sys.exit(main())
