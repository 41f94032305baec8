#!/usr/bin/env python3
"""Checks that each module of src/ includes only the modules it may build on.

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
    "cluster": ["mpi_interop", *LOWER],
    "probe": ["ocl", "base"],  # a program of its own, run by events
}
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".def", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def wrong_includes(module, text):
    """The reasons why a file of `module` with this text is wrong, each with its line number."""
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        target = match[1].split("/")[0] if "/" in match[1] else None
        if target not in MAY_INCLUDE:
            yield line, f'"{match[1]}" does not begin with a module of src/'
        elif target != module and target not in MAY_INCLUDE[module]:
            yield line, f'"{match[1]}": {module} must not include {target}'


def check(src):
    """All complaints about the folder `src`, and the number of files looked at."""
    complaints = []
    files = sorted(path for path in src.rglob("*") if path.suffix in SUFFIXES)
    for path in files:
        module = path.relative_to(src).parts[0]
        if module not in MAY_INCLUDE:
            complaints.append(f"{path}: not in a module of src/ ({', '.join(MAY_INCLUDE)})")
            continue
        complaints += [f"{path}:{line}: {why}" for line, why in wrong_includes(module, path.read_text())]
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
