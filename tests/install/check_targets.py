#!/usr/bin/env python3
"""Configures the project as `./dev install` does, and checks that every program and library built by default is installed.

Usage: check_targets.py SOURCE_FOLDER MESON OPTION...
"""

import json
import pathlib
import subprocess
import sys
import tempfile


def main():
    source, meson, *options = sys.argv[1:]
    dev = pathlib.Path(source, "dev").read_text()
    left_out = ["-Dtests=disabled", "-Dexamples=false", "-Dbenchmarks=false"]
    if " ".join(left_out) not in dev:
        sys.exit(f"FAILED: ./dev install does not configure with {' '.join(left_out)}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([meson, "setup", folder, source, *left_out, *options], check=True, stdout=subprocess.DEVNULL)
        targets = json.loads(subprocess.run([meson, "introspect", "--targets", folder], check=True, capture_output=True,
                                            text=True).stdout)
    kinds = ("executable", "shared library", "shared module")
    built = [target for target in targets if target["type"] in kinds and target["build_by_default"]]
    extra = [target["name"] for target in built if not target["installed"]]
    if extra or not built:
        sys.exit(f"FAILED: built, but not installed: {' '.join(extra) or 'nothing is built'}")
    print(f"{len(built)} programs and libraries, all installed")


if __name__ == "__main__":
    main()
