#!/usr/bin/env python3
"""Checks that each module of src/, and each room of src/cluster, includes only those it may build on.

Usage: check_layers.py SRC_FOLDER. Prints one line per wrong include; the exit status says if there was any.
"""

import pathlib
import re
import sys

# api -> mpi_interop | stdio -> pipeline -> events -> ocl -> base, and the cluster platform beside api.
LOWER = ["pipeline", "events", "ocl", "base"]
MAY_INCLUDE = {
    "base": [],
    "ocl": LOWER[3:],
    "events": LOWER[2:],
    "pipeline": LOWER[1:],
    "mpi_interop": LOWER,
    "stdio": LOWER,
    "api": ["mpi_interop", "stdio", *LOWER],
    "hdf5": ["api", "stdio", *LOWER],  # a library of its own
    "splitting": ["base"],  # pure
    "analysis": ["splitting", "base"],  # a library of its own, loaded by splitting
    "cluster": ["mpi_interop", "splitting", *LOWER],
    "collectives": LOWER[2:],  # a library of its own
    "host": [],  # a library of its own, preloaded into programs
    "probe": ["ocl", "base"],  # a program of its own, run by events
}
# The rooms of src/cluster: icd -> api -> world -> split -> execution -> objects -> calls, schedule.
ROOMS_BELOW = ["api", "world", "split", "execution", "objects", "calls", "schedule"]
CLUSTER_MAY_INCLUDE = {
    "icd": ROOMS_BELOW,
    "api": ROOMS_BELOW[1:],
    "world": ROOMS_BELOW[2:],
    "split": ROOMS_BELOW[3:],
    "execution": ROOMS_BELOW[4:],
    "objects": ROOMS_BELOW[5:],
    "calls": [],
    "schedule": [],
}
PURE_ROOMS = ["schedule"]  # include nothing of other modules
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".def", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def place_of(parts):
    """The module that a path's folders name, with its room in src/cluster; None for neither."""
    if len(parts) < 2 or parts[0] not in MAY_INCLUDE:
        return None
    if parts[0] != "cluster":
        return parts[0], None
    return (parts[0], parts[1]) if len(parts) > 2 and parts[1] in CLUSTER_MAY_INCLUDE else None


def may_include(place, target):
    """Whether files of the module and room `place` may include those of `target`."""
    (module, room), (target_module, target_room) = place, target
    if module != target_module:
        return target_module in MAY_INCLUDE[module] and room not in PURE_ROOMS
    return room == target_room or target_room in CLUSTER_MAY_INCLUDE[room]


def wrong_includes(place, text):
    """The reasons why a file of the module and room `place` with this text is wrong, each with its line number."""
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        target = place_of(match[1].split("/"))
        if target is None:
            yield line, f'"{match[1]}" does not begin with a module of src/, or a room of src/cluster'
        elif not may_include(place, target):
            yield line, f'"{match[1]}": {name_of(place)} must not include {name_of(target)}'


def name_of(place):
    return "/".join(part for part in place if part)


def check(src):
    """All complaints about the folder `src`, and the number of files looked at."""
    complaints = []
    files = sorted(path for path in src.rglob("*") if path.suffix in SUFFIXES)
    for path in files:
        place = place_of(path.relative_to(src).parts)
        if place is None:
            complaints.append(f"{path}: not in a module of src/ ({', '.join(MAY_INCLUDE)}), or a room of src/cluster")
            continue
        complaints += [f"{path}:{line}: {why}" for line, why in wrong_includes(place, path.read_text())]
    return complaints, len(files)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    complaints, count = check(pathlib.Path(sys.argv[1]))
    if count == 0:
        complaints.append(f"{sys.argv[1]}: no sources there")
    print("\n".join(complaints) if complaints else f"{count} files include only what is below them")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
