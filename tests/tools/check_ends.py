#!/usr/bin/env python3
"""Runs OpenCL programs that end without exit(), or are interrupted, with `cldist run` in both host modes.

    check_ends.py CLDIST openmpi|mpich PROGRAM

PROGRAM is tests/cluster/ending.cpp.
"""

import random
import signal
import subprocess
import sys
import time

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


def check_death(mode, rest):
    """A program dies, and the script that started it goes on."""
    done = subprocess.run(command(mode, "bash", "-c", f"'{PROGRAM}' killed; {rest}"), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=SECONDS)
    reported = "a program that had joined the job was killed" in done.stderr and "mpirun" not in done.stderr
    expect(done.returncode == 1 and reported, f"{mode}: a job ends if a program dies before {rest}", done)


def check_interrupt(mode, way="interrupted"):
    """The program gets SIGINT once and continues. The job's exit status is the program's."""
    with subprocess.Popen(command(mode, PROGRAM, way), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as job:
        expect(job.stdout.readline() == "ready\n", f"{mode}: the program starts")
        time.sleep(random.uniform(0, 0.3))
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=SECONDS)
    # MPICH's mpirun prints that it sends the signal.
    lines = [line for line in out.splitlines() if not line.startswith("[mpiexec@")]
    expect(lines == ["interrupted 1 time"], f"{mode}: SIGINT arrives once, {way}", job.returncode, out, err)
    # MPICH's mpirun may return its own status.
    statuses = (0,) if MPI == "openmpi" else (0, 128 + signal.SIGINT)
    expect(job.returncode in statuses and not err, f"{mode}: the interrupted program's status is the job's, {way}",
           job.returncode, err)


def main():
    for mode in "replicated", "central":
        for way in "_exit", "quick_exit", "exec", "children":
            check_end(mode, way)
        for rest in f"'{PROGRAM}' nothing-released; sleep 60", "sleep 60", "true":
            check_death(mode, rest)
    check_interrupt("central")
    # Repeated, because about every second run would end with differing calls if the processes did
    # not agree on the time of the signal.
    for _ in range(5):
        check_interrupt("replicated")
    for way in "interrupted-asleep", "interrupted-in-thread":
        check_interrupt("replicated", way)
    for way in "daemon", "daemon-joins-first":
        check_end("central", way)
    return bool(complaints)


sys.exit(main())
