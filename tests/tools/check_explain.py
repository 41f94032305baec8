#!/usr/bin/env python3
"""Checks the output of `cldist explain` for the kernels of explain.cl and for invalid programs.

    check_explain.py CLDIST EXPLAIN.CL EXPECTED
"""

import shutil
import subprocess
import sys
import tempfile

CLDIST, PROGRAM, EXPECTED = sys.argv[1:]


def explain(*arguments):
    return subprocess.run([CLDIST, "explain", *arguments], capture_output=True, text=True)


if shutil.which("clang") is None:
    print("SKIP: cldist explain: clang is not installed")
    sys.exit(77)
complaints = []
said = explain(PROGRAM, "-DROW=64", "-cl-std=CL2.0")
with open(EXPECTED, encoding="utf-8") as file:
    expected = file.read()
if said.returncode != 0 or said.stdout != expected:
    complaints.append(f"explain.cl: status {said.returncode}; it says\n{said.stdout}{said.stderr}instead of\n{expected}")
for source, wanted in (("kernel void f(global int *a) { a[0] = b; }", "program.cl:1:39: error: use of undeclared identifier 'b'"),
                       ("int nothing;", "no kernels")):
    with tempfile.NamedTemporaryFile("w", suffix=".cl") as file:
        file.write(source)
        file.flush()
        said = explain(file.name, "-cl-std=CL2.0")
        if wanted not in said.stdout + said.stderr:
            complaints.append(f"{source}: {said.stdout}{said.stderr} has no {wanted!r}")
said = explain("/")
if said.returncode != 1 or "cldist explain: cannot read /: Is a directory" not in said.stderr:
    complaints.append(f"a folder: status {said.returncode}: {said.stderr}")
print("\n".join(complaints) or "all as expected")
sys.exit(1 if complaints else 0)
