#!/usr/bin/env python3
"""Runs a program with different settings for each rank.

    mpirun -n 2 settings_by_rank.py NAME=VALUE... / NAME=VALUE... -- PROGRAM ARGUMENTS...

mpirun's own syntax for that, "-n 1 one : -n 1 other", crashes Open MPI 5.0.7 of Debian 13.
"""

import os
import sys

at = sys.argv.index("--")
of_ranks = [[]]
for word in sys.argv[1:at]:
    if word == "/":
        of_ranks.append([])
    else:
        of_ranks[-1].append(word)
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
os.environ.update(setting.split("=", 1) for setting in of_ranks[int(rank)])
os.execvp(sys.argv[at + 1], sys.argv[at + 1:])
