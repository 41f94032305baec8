#!/usr/bin/env python3
"""Checks that the counts of a program's real processes equal those of simulated ones: calls, commands, messages and bytes.
Also checks that automatic attachment of buffers (CLDIST_ATTACH) does not change calls, messages and bytes.

    check_counts.py FOLDER CLDIST PROCESSES [--central] PROGRAM [ARGUMENTS]

FOLDER is created. The program runs on PROCESSES processes of this host, and then once for each simulated rank. With
--central, only rank 0, the central host, is simulated.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

SECONDS = 60


def accounts(path):
    """For each rank, the lines of its account, without times and objects."""
    found = {}
    for part in re.split(r"^cldist: rank ", path.read_text(), flags=re.MULTILINE)[1:]:
        rank = int(part.split()[0])
        if rank in found:
            sys.exit(f"{path}: rank {rank} appears twice")
        text = part.split("\n", 1)[1]
        found[rank] = [line for line in text[:text.index("  objects")].splitlines() if line.strip()]
    return found


def without_batches(line):
    """Removes the number of messages, because the grouping of calls depends on time."""
    words = line.split()
    return words[:2] + words[3:4] if words[:2] == ["calls", "sent"] else line


def check_central(folder, cldist, processes, program):
    run(cldist, "-n", str(processes), "--host-mode", "central", "--counts", str(folder / "real"), *program)
    run(cldist, "--simulate", f"{processes}:0:{processes}", "--host-mode", "central", "--counts", str(folder / "simulated"), *program)
    real, simulated = accounts(folder / "real")[0], accounts(folder / "simulated")[0]
    print("\n".join(real))
    differing = [(counted, said) for counted, said in zip(real, simulated, strict=True)
                 if without_batches(counted) != without_batches(said)]
    for counted, said in differing:
        print(f"the host's count\n{counted}\ndiffers from the simulation's\n{said}")
    if not any(line.split()[:2] == ["calls", "sent"] and line.split()[3] != "0" for line in real):
        sys.exit("the host has sent no calls")
    sys.exit(1 if differing else None)


def numbers_to_compare(line):
    """Remote and dropped commands are added, because only their sum is the same."""
    if "remote commands" not in line:
        return line
    local, remote, dropped = (int(number) for number in re.findall(r"(?<=\s)\d+(?=\s)", line))
    return local, remote + dropped


def run(cldist, *arguments, attach="auto"):
    done = subprocess.run([cldist, "run", "--devices", "cpu", *arguments], capture_output=True, text=True, check=False,
                          timeout=SECONDS, env={**os.environ, "CLDIST_ATTACH": attach})
    if done.returncode != 0:
        sys.exit(f"cldist run {' '.join(arguments)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    folder, cldist, processes, program = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if program[0] == "--central":
        check_central(folder, cldist, processes, program[1:])
    for rank in range(processes):
        for attach in "auto", "program":
            run(cldist, "--simulate", f"{processes}:{rank}:{processes}", "--counts", str(folder / attach), *program, attach=attach)
    simulated, plain = accounts(folder / "auto"), accounts(folder / "program")
    # With a shared cache, builds of PoCL 3.1 sometimes fail. The processes then agree to build
    # again, which changes the counts, so the run is repeated.
    for attempt in range(3):
        path = folder / f"real-{attempt}"
        run(cldist, "-n", str(processes), "--counts", str(path), *program)
        real = accounts(path)
        for found in real, simulated, plain:
            if sorted(found) != list(range(processes)):
                sys.exit(f"not all of {processes} ranks have an account: {sorted(found)}")
        differing = [(rank, pair) for rank in real for pair in zip(real[rank], simulated[rank], strict=True)
                     if pair[0] != pair[1]]
        if not differing or not all("agreement" in counted for _, (counted, _) in differing):
            break
    for rank, (counted, said) in differing:
        print(f"rank {rank}'s count\n{counted}\ndiffers from the simulation's\n{said}")
    for rank in real:
        for with_it, without in zip(simulated[rank], plain[rank], strict=True):
            if numbers_to_compare(with_it) == numbers_to_compare(without):
                continue
            differing.append((rank, without))
            print(f"rank {rank}'s count\n{with_it}\ndiffers from the one with CLDIST_ATTACH=program\n{without}")
    sent = sum(int(line.split()[-5]) for rank in real for line in real[rank] if " sent " in line)
    print("\n".join(real[0]))
    if sent == 0:
        sys.exit("no rank has sent anything")
    sys.exit(1 if differing else None)


if __name__ == "__main__":
    main()
