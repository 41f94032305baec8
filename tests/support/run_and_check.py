#!/usr/bin/env python3
"""Runs a job and checks how it ended and what it printed on standard error.

    run_and_check.py [--ends zero|nonzero|any] [--says REGEX]... [--never REGEX]... [--seconds N]
                     [--env NAME=VALUE]... -- COMMAND...

Each --says must be found within one line. "died of a signal" always fails the test.
"""

import argparse
import os
import re
import signal
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ends", choices=["zero", "nonzero", "any"], default="zero")
    parser.add_argument("--says", action="append", default=[])
    parser.add_argument("--never", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    environment = dict(os.environ)
    environment.update(setting.split("=", 1) for setting in options.env)
    with subprocess.Popen(options.command, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as job:
        try:
            out, err = job.communicate(timeout=options.seconds)
        except subprocess.TimeoutExpired:
            job.terminate()  # mpirun ends its processes
            try:
                out, err = job.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                out, err = job.communicate()
            print(out, err, f"FAILED: not done after {options.seconds:g} s", sep="\n")
            return 1

    complaints = []
    if options.ends == "zero" and job.returncode != 0 or options.ends == "nonzero" and job.returncode == 0:
        complaints.append(f"exit status {job.returncode}, expected {options.ends}")
    lines = err.splitlines()
    for regex in options.says:
        if not any(re.search(regex, line, re.IGNORECASE) for line in lines):
            complaints.append(f"no line says {regex!r}")
    for regex in options.never + [r"signal code|Segmentation fault|Aborted \(|AddressSanitizer|UNEXPECTED:"]:
        complaints += [f"says {line!r}" for line in lines if re.search(regex, line, re.IGNORECASE)]
    print(out, err, sep="\n")
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


sys.exit(main())
