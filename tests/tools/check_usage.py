#!/usr/bin/env python3
"""Checks what `cldist` says to right and wrong usage.

    check_usage.py CLDIST
"""

import subprocess
import sys

CASES = [  # arguments, exit status, what it says
    (["--help"], 0, "doctor"),
    (["doctor", "--help"], 0, "PROBLEM"),
    (["trace", "--help"], 0, "under kernels"),
    ([], 2, "subcommand is required"),
    (["frobnicate"], 2, ""),
    (["doctor", "--frobnicate"], 2, "--frobnicate"),
    (["doctor", "extra"], 2, "extra"),
    (["trace"], 2, "FOLDER is required"),
    (["trace", "/no/such/folder"], 1, "/no/such/folder"),
    (["tune", "--help"], 0, "Bytes that arrive are compared"),
    (["tune", "--seconds", "0"], 2, "--seconds"),
    (["tune", "--device", "fpga"], 2, "neither cpu, gpu nor a number"),
    (["tune", "64k"], 2, "requires --explain"),
    (["tune", "--explain", "64q"], 2, "not a size"),
    (["tune", "--explain", "--plot", "x.png"], 2, "excludes"),
    (["tune", "--plot"], 2, "--plot"),
    (["tune", "--profile", "x.toml"], 2, "--profile is for"),
    (["tune", "--explain", "--profile", "/no/such/file"], 1, "/no/such/file: can't be read"),
    (["tune", "--device", "999"], 1, "there is no OpenCL device 999"),
    (["tune", "--directory", "/no/such/folder"], 1, "can't make a file in /no/such/folder"),
    (["tune", "--output", "/proc/no/profile.toml"], 1, "can't make the folder /proc/no"),
    (["run", "--help"], 0, "Exit status: that of a rank that failed"),
    (["run"], 2, "PROGRAM is required"),
    (["run", "-n", "2", "--"], 2, "PROGRAM is required"),
    (["run", "-n", "0", "program"], 2, "-n"),
    (["run", "-n", "two", "program"], 2, "-n"),
    (["run", "--frobnicate", "program"], 2, "--frobnicate"),
    (["trace", "/proc/self"], 1, "no cldist-trace-<rank>.json is there"),
]


def main():
    program = sys.argv[1]
    failed = False
    for arguments, status, text in CASES:
        run = subprocess.run([program, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                             timeout=60)
        if run.returncode != status or text not in run.stdout:
            print(f"FAILED: cldist {' '.join(arguments)}: status {run.returncode}, expected {status} and {text!r} in:",
                  run.stdout, sep="\n")
            failed = True
    return failed


sys.exit(main())
