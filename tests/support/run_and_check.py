#!/usr/bin/env python3
"""Runs a job and checks its exit status and its standard error.

    run_and_check.py [--ends zero|nonzero|any|STATUS] [--says REGEX]... [--once REGEX]... [--never REGEX]...
                     [--seconds N] [--within N] [--env NAME=VALUE]... -- COMMAND...

Each --says must match within one line. Each --once must match in exactly one line, --within N seconds after the latest
printed "at SECONDS" (since 1970). A crash of the program always fails the test, a crash of the launcher does not: Open MPI
4.1's mpirun sometimes crashes while it forwards the output of an aborting process, or hangs after it has misread a message
from one; then the job runs again. A COMMAND that starts launchers prints "launchers: PID...".
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time


def run(options, may_repeat):
    """Returns the exit status; None if the launcher crashed or hung and the job must run again."""
    environment = dict(os.environ)
    environment.update(setting.split("=", 1) for setting in options.env)
    lines = []  # of standard error
    times = []  # arrival times of the lines
    with tempfile.TemporaryFile("w+", errors="replace") as out, subprocess.Popen(
            options.command, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.PIPE, start_new_session=True) as job:

        def read():
            for line in job.stderr:
                times.append(time.time())
                lines.append(line.rstrip("\n"))

        reader = threading.Thread(target=read)
        reader.start()

        def finish(seconds):
            """Whether the job has ended in time, and all processes have closed its standard error."""
            until = time.monotonic() + seconds
            reader.join(seconds)
            try:
                job.wait(max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                return False
            return not reader.is_alive()

        in_time = finish(options.seconds)
        if not in_time:
            job.terminate()  # mpirun then ends its processes
            if not finish(10):
                os.killpg(job.pid, signal.SIGKILL)
                finish(10)
        ended = time.time()
        out.seek(0)
        printed = out.read()
        print(printed, *lines, sep="\n")
        if not in_time:
            if may_repeat and any("ORTE_ERROR_LOG: Data unpack" in line for line in lines):
                return None
            print(f"FAILED: not finished after {options.seconds:g} s")
            return 1
        launchers = [str(job.pid)]
        for line in lines:
            if line.startswith("launchers: "):
                launchers += line.split()[1:]
        if may_repeat and any(re.match(rf"\[[^]]*:0*({'|'.join(launchers)})\] Signal: ", line) for line in lines):
            return None
        # MPICH's mpirun may drop the last output of a job that aborts.
        if may_repeat and job.returncode != 0 and options.says and not printed and not lines:
            return None

    if job.returncode == 0 and options.ends == "zero" and re.search(r"^SKIP: ", printed, re.MULTILINE) and not any(
            re.match("ok ", line) for line in printed.splitlines()):
        return 77  # no test ran
    complaints = []
    expected = {"zero": job.returncode == 0, "nonzero": job.returncode != 0, "any": True}
    if not expected.get(options.ends, options.ends == str(job.returncode)):
        complaints.append(f"exit status {job.returncode}, expected {options.ends}")
    for regex in options.once:
        found = [when for line, when in zip(lines, times) if re.search(regex, line, re.IGNORECASE)]
        if len(found) != 1:
            complaints.append(f"{len(found)} lines say {regex!r}, expected one")
        elif options.within is not None:
            since = max((float(at) for line in lines for at in re.findall(r"\bat (\d+\.\d+)$", line)), default=0)
            print(f"reported after {found[0] - since:.3f} s, ended {ended - found[0]:.3f} s later")
            if found[0] - since > options.within:
                complaints.append(f"{regex!r} is said after {found[0] - since:.3f} s, expected {options.within:g} s")
    for regex in options.says:
        if not any(re.search(regex, line, re.IGNORECASE) for line in lines):
            complaints.append(f"no line says {regex!r}")
    for regex in options.never + [r"signal code|Segmentation fault|Aborted \(|AddressSanitizer|UNEXPECTED:"]:
        complaints += [f"says {line!r}" for line in lines if re.search(regex, line, re.IGNORECASE)]
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ends", default="zero")
    parser.add_argument("--says", action="append", default=[])
    parser.add_argument("--once", action="append", default=[])
    parser.add_argument("--never", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--within", type=float)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    for attempt in range(3):
        status = run(options, may_repeat=attempt < 2)
        if status is not None:
            return status
        print("The launcher itself crashed, hung or lost all output: the job runs again.")


sys.exit(main())
