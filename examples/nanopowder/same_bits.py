#!/usr/bin/env python3
"""Runs nanopowder with several numbers of processes: each run must pass its own checks, and all must have one
fingerprint.

    same_bits.py NUMBER,NUMBER... MPIRUN [ARGUMENTS] -- NANOPOWDER [ARGUMENTS]
"""

import re
import subprocess
import sys


def main():
    separator = sys.argv.index("--")
    numbers, mpirun, program = sys.argv[1].split(","), sys.argv[2:separator], sys.argv[separator + 1:]
    fingerprints = []
    for number in numbers:
        done = subprocess.run([*mpirun, "-n", number, *program], stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: exit status {done.returncode} with {number} processes")
        fingerprints += re.findall(r"^fingerprint: (\w+)$", done.stdout, re.MULTILINE)
    if len(fingerprints) != len(numbers) or len(set(fingerprints)) != 1:
        sys.exit(f"FAILED: the fingerprints with {', '.join(numbers)} processes: {fingerprints}")


main()
