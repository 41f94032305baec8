#!/usr/bin/env python3
"""Runs piglit's OpenCL tests natively and on the cluster platform: what passes natively must pass there.

    OCL_ICD_VENDORS=... compare_piglit.py [--only REGEX] [--jobs N] PIGLIT MPIRUN...

PIGLIT is the folder with piglit's bin, tests and generated_tests (Debian: package piglit). The platform is the one of
OCL_ICD_VENDORS, in a job that MPIRUN... starts.
"""

import argparse
import ast
import gzip
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Tests of what a replicated host can't have, or of other things than the platform.
LEFT_OUT = {
    "api@clenqueuereadbuffer and clenqueuewritebuffer": "it writes memory that it has not set, which differs between processes",
    "interop@egl_khr_cl_event2": "it needs a display",
}


def tests_of(folder):
    for test in xml.etree.ElementTree.parse(gzip.open(folder / "tests" / "cl.xml.gz")).getroot():
        options = {option.get("name"): ast.literal_eval(option.get("value")) for option in test}
        command = options["command"] if "command" in options else ["cl-program-tester", options["filename"]]
        yield test.get("name"), [str(folder / "bin" / command[0]), *command[1:]]


def result_of(command, folder, environment):
    """What passed: the test itself, as "", and parts of it; and what it printed."""
    try:
        done = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as late:
        return set(), (late.stdout or b"").decode(errors="replace") + "\ntook more than 120 s"
    text = done.stdout.decode(errors="replace")
    passed = set()
    for line in re.findall(r"^PIGLIT: (\{.*\})\s*$", text, re.M):
        said = json.loads(line)
        parts = {"": said["result"]} if "result" in said else said["subtest"]
        passed |= {part for part, result in parts.items() if result == "pass"}
        passed -= {part for part, result in parts.items() if result != "pass"}
    return (passed if done.returncode == 0 else passed - {""}), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("piglit", type=Path)
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    libraries = f"{arguments.piglit / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    platform = {**os.environ, "PIGLIT_SOURCE_DIR": str(arguments.piglit), "LD_LIBRARY_PATH": libraries}
    native = {name: value for name, value in platform.items() if name != "OCL_ICD_VENDORS"}

    def compare(test):
        name, command = test
        natively, _ = result_of(command, arguments.piglit, native)
        there, said = result_of([*arguments.mpirun, *command], arguments.piglit, platform)
        return name, natively, natively - there, said

    chosen = [test for test in tests_of(arguments.piglit)
              if test[0] not in LEFT_OUT and re.search(arguments.only, test[0])]
    print(*(f"left out: {name}: {why}" for name, why in LEFT_OUT.items()), sep="\n")
    passed = failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done, (name, natively, lost, said) in enumerate(pool.map(compare, chosen), 1):
            passed += not lost and "" in natively
            failed += bool(lost)
            if lost:
                print(f"FAILED: {name}: {', '.join(sorted(part or 'the test' for part in lost))}: natively well\n{said}")
            if done % 50 == 0:
                print(f"{done} of {len(chosen)}", flush=True)
    print(f"{len(chosen)} tests: {passed} pass natively and here, {failed} natively only")
    return 1 if failed or not chosen else 0


sys.exit(main())
