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
