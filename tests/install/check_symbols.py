#!/usr/bin/env python3
"""Compares the exported symbols of libraries and their versions with the list of the Debian package.

Usage: check_symbols.py LIST ANY_MPI LIBRARY...

The list is made for Open MPI 4. ANY_MPI is yes for other MPI libraries: then MPI's functions are not compared.
"""

import pathlib
import subprocess
import sys


def listed(path):
    """{soname: {symbol@version}}, without optional symbols."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(" ("):
            continue
        if line.startswith(" "):
            symbols.add(line.split()[0])
        elif not line.startswith("*"):
            symbols = found.setdefault(line.split()[0], set())
    return found


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    names = {line.split()[-1].replace("@@", "@") for line in lines}
    # Skips symbols that only this project's libraries use; their version changes with each release. nm prints
    # versions as symbols, too.
    return {name if "@" in name else f"{name}@{name}" for name in names if "CLDIST_PRIVATE_" not in name}


def soname(library):
    text = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    return next(line.split("[")[1].rstrip("]") for line in text.splitlines() if "(SONAME)" in line)


def main():
    path, any_mpi, *libraries = sys.argv[1:]
    wanted = listed(path)
    failed = False
    for library in libraries:
        name = soname(library)
        if name not in wanted:
            sys.exit(f"FAILED: {path} has no symbols of {name}")
        symbols = [{symbol for symbol in group if any_mpi == "no" or not symbol.startswith("MPI_")}
                   for group in (wanted[name], exported(library))]
        for text, difference in (("lacks", symbols[0] - symbols[1]), ("also exports", symbols[1] - symbols[0])):
            if difference:
                failed = True
                print(f"FAILED: {name} {text}: {' '.join(sorted(difference))}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
