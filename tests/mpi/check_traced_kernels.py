#!/usr/bin/env python3
"""Runs a program with CLDIST_TRACE and checks which kernels its trace shows.

    check_traced_kernels.py FOLDER NAME=COUNT[,NAME=COUNT...] -- COMMAND...
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

folder, wanted, separator, *command = sys.argv[1:]
assert separator == "--"
shutil.rmtree(folder, ignore_errors=True)
subprocess.run(command, env={name: value for name, value in os.environ.items() if name != "CLDIST_TRACE"}, check=True)
subprocess.run(command, env=dict(os.environ, CLDIST_TRACE=folder), check=True)
events = json.loads(pathlib.Path(folder, "cldist-trace-0.json").read_text(encoding="utf-8"))["traceEvents"]
found = collections.Counter(event["name"] for event in events if event["ph"] == "X")
print(dict(found))
if found != {name: int(count) for name, count in (item.split("=") for item in wanted.split(","))}:
    sys.exit(f"FAILED: expected {wanted}")
if any(event["dur"] <= 0 for event in events if event["ph"] == "X"):
    sys.exit("FAILED: a kernel takes no time")
