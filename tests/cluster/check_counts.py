#!/usr/bin/env python3
"""Checks that what real processes of a program count is what simulated ones say: calls, commands, messages and bytes.

    check_counts.py FOLDER CLDIST PROCESSES PROGRAM [ARGUMENTS]

FOLDER is made. The program runs on so many processes of this host, and then once for each rank alone.
"""

import pathlib
import re
import shutil
import subprocess
import sys

SECONDS = 60


def accounts(path):
    """For each rank the lines of its account that don't tell of time or objects."""
    found = {}
    for part in re.split(r"^cldist: rank ", path.read_text(), flags=re.MULTILINE)[1:]:
        rank = int(part.split()[0])
        if rank in found:
            sys.exit(f"{path}: rank {rank} is there twice")
        text = part.split("\n", 1)[1]
        found[rank] = [line for line in text[:text.index("  objects")].splitlines() if line.strip()]
    return found


def run(cldist, *arguments):
    done = subprocess.run([cldist, "run", "--devices", "cpu", *arguments], capture_output=True, text=True, check=False,
                          timeout=SECONDS)
    if done.returncode != 0:
        sys.exit(f"cldist run {' '.join(arguments)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    folder, cldist, processes, program = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(cldist, "-n", str(processes), "--counts", str(folder / "real"), *program)
    for rank in range(processes):
        run(cldist, "--simulate", f"{processes}:{rank}:{processes}", "--counts", str(folder / "simulated"), *program)
    real, simulated = accounts(folder / "real"), accounts(folder / "simulated")
    if sorted(real) != list(range(processes)) or sorted(simulated) != list(range(processes)):
        sys.exit(f"not all of {processes} ranks have counted: {sorted(real)}, simulated {sorted(simulated)}")
    differing = [(rank, pair) for rank in real for pair in zip(real[rank], simulated[rank], strict=True)
                 if pair[0] != pair[1]]
    for rank, (counted, said) in differing:
        print(f"rank {rank} has counted\n{counted}\nsimulated it says\n{said}")
    sent = sum(int(line.split()[-5]) for rank in real for line in real[rank] if " sent " in line)
    print("\n".join(real[0]))
    if sent == 0:
        sys.exit("no rank has sent anything")
    sys.exit(1 if differing else None)


if __name__ == "__main__":
    main()
