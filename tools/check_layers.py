#!/usr/bin/env python3
"""Checks that each module of src/, and each folder of src/cluster, includes only what the layers allow.

Usage: check_layers.py SRC_FOLDER. Prints one line per forbidden include, and fails if there is one.
"""

import pathlib
import re
import sys

# Layers: api -> mpi_interop | stdio -> pipeline -> events -> ocl -> base. The cluster platform is
# beside api.
LOWER = ["pipeline", "events", "ocl", "base"]
MAY_INCLUDE = {
    "base": [],
    "ocl": LOWER[3:],
    "events": LOWER[2:],
    "pipeline": LOWER[1:],
    "mpi_interop": LOWER,
    "stdio": LOWER,
    "api": ["mpi_interop", "stdio", *LOWER],
    "hdf5": ["api", "stdio", *LOWER],  # a separate library
    "splitting": ["base"],  # no system dependencies
    "analysis": ["splitting", "base"],  # a separate library, loaded by splitting
    "cluster": ["mpi_interop", "splitting", *LOWER],
    "collectives": LOWER,  # a separate library
    "host": [],  # a separate library, preloaded into programs
    "probe": ["ocl", "base"],  # a separate program, started by events
}
# The folders of src/cluster: icd -> api -> world -> split -> execution -> objects -> calls,
# schedule.
FOLDERS_BELOW = ["api", "world", "split", "execution", "objects", "calls", "schedule"]
CLUSTER_MAY_INCLUDE = {
    "icd": FOLDERS_BELOW,
    "api": FOLDERS_BELOW[1:],
    "world": FOLDERS_BELOW[2:],
    "split": FOLDERS_BELOW[3:],
    "execution": FOLDERS_BELOW[4:],
    "objects": FOLDERS_BELOW[5:],
    "calls": [],
    "schedule": [],
}
PURE_FOLDERS = ["schedule"]  # may include other modules only for PURE_HEADERS
PURE_HEADERS = ["base/binomial_tree.hpp"]
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".def", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def place_of(parts):
    """Returns (module, folder in src/cluster or None) of a path; None if it is in no module."""
    if len(parts) < 2 or parts[0] not in MAY_INCLUDE:
        return None
    if parts[0] != "cluster":
        return parts[0], None
    return (parts[0], parts[1]) if len(parts) > 2 and parts[1] in CLUSTER_MAY_INCLUDE else None


def may_include(place, target):
    """Returns whether files in `place` may include files in `target`; both are (module, folder)."""
    (module, folder), (target_module, target_folder) = place, target
    if module != target_module:
        return target_module in MAY_INCLUDE[module] and folder not in PURE_FOLDERS
    return folder == target_folder or target_folder in CLUSTER_MAY_INCLUDE[folder]


def wrong_includes(place, text):
    """Yields (line, reason) for each forbidden include of a file in `place` with this text."""
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        target = place_of(match[1].split("/"))
        if target is None:
            yield line, f'"{match[1]}" does not begin with a module of src/, or a folder of src/cluster'
        elif not may_include(place, target) and match[1] not in PURE_HEADERS:
            yield line, f'"{match[1]}": {name_of(place)} must not include {name_of(target)}'


def name_of(place):
    return "/".join(part for part in place if part)


def check(src):
    """Returns all complaints about the folder `src`, and the number of checked files."""
    complaints = []
    files = sorted(path for path in src.rglob("*") if path.suffix in SUFFIXES)
    for path in files:
        place = place_of(path.relative_to(src).parts)
        if place is None:
            complaints.append(f"{path}: not in a module of src/ ({', '.join(MAY_INCLUDE)}), or a folder of src/cluster")
            continue
        complaints += [f"{path}:{line}: {why}" for line, why in wrong_includes(place, path.read_text())]
    return complaints, len(files)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    complaints, count = check(pathlib.Path(sys.argv[1]))
    if count == 0:
        complaints.append(f"{sys.argv[1]}: the folder contains no sources")
    print("\n".join(complaints) if complaints else f"{count} files include only what the layers allow")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
