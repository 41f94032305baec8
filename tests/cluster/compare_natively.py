#!/usr/bin/env python3
"""Runs other projects' OpenCL tests natively and on the cluster platform. Tests that pass natively must pass there.

    OCL_ICD_VENDORS=... compare_natively.py [--folder FOLDER] [--only REGEX] [--jobs N] SUITE MPIRUN...

SUITE is "piglit" (Debian's package piglit) or "conformance": Khronos' conformance tests that were built in the folder
CLDIST_CTS, of a version that uses CL_CONFORMANCE_RESULTS_FILENAME. MPIRUN... starts a job with the platform of
OCL_ICD_VENDORS.
"""

import argparse
import ast
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class Piglit:
    where = "/usr/lib/x86_64-linux-gnu/piglit"  # contains bin, tests and generated_tests
    missing = "piglit is not installed"
    seconds = 120  # limit for one test
    # Tests of features that a replicated host can't have, or that do not concern the platform.
    left_out = {
        "api@clenqueuereadbuffer and clenqueuewritebuffer": "it writes memory that it has not set, which differs between processes",
        "interop@egl_khr_cl_event2": "it needs a display",
    }

    def __init__(self, folder):
        self.folder = folder
        libraries = f"{folder / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        self.environment = {"PIGLIT_SOURCE_DIR": str(folder), "LD_LIBRARY_PATH": libraries}

    def tests(self):
        for test in xml.etree.ElementTree.parse(gzip.open(self.folder / "tests" / "cl.xml.gz")).getroot():
            options = {option.get("name"): ast.literal_eval(option.get("value")) for option in test}
            command = options["command"] if "command" in options else ["cl-program-tester", options["filename"]]
            yield test.get("name"), [str(self.folder / "bin" / command[0]), *command[1:]]

    @staticmethod
    def passed(text, _):
        passed = set()
        for line in re.findall(r"^PIGLIT: (\{.*\})\s*$", text, re.M):
            said = json.loads(line)
            parts = {"": said["result"]} if "result" in said else said["subtest"]
            passed |= {part for part, result in parts.items() if result == "pass"}
            passed -= {part for part, result in parts.items() if result != "pass"}
        return passed


class Conformance:
    where = os.environ.get("CLDIST_CTS", "")
    missing = "CLDIST_CTS names no folder with conformance tests"
    seconds = 900
    left_out = {}
    environment = {}
    programs = ["test_api", "test_basic", "test_buffers", "test_events", "test_multiples"]
    # Every process has its own file.
    start = ["sh", "-c", 'CL_CONFORMANCE_RESULTS_FILENAME=$RESULTS/$$ exec "$0" "$@"']

    def __init__(self, folder):
        self.folder = folder

    def tests(self):
        for name in self.programs:
            for program in (path for path in self.folder.rglob(name) if path.is_file()):
                said = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
                for test in said.partition("Test names:")[2].split():
                    yield f"{name}@{test}", [*self.start, str(program), test]

    @staticmethod
    def passed(_, results):
        files = [json.loads(file.read_text()) for file in results.iterdir()]
        return {""} if files and all(set(file["results"].values()) == {"pass"} for file in files) else set()


def result_of(suite, command, environment):
    """The passed parts of a test, "" for the test itself, and its output."""
    with tempfile.TemporaryDirectory() as results:
        try:
            done = subprocess.run(command, env={**environment, "RESULTS": results}, cwd=suite.folder,
                                  stdin=subprocess.DEVNULL, timeout=suite.seconds,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            return set(), (late.stdout or b"").decode(errors="replace") + f"\ntook more than {suite.seconds} s"
        text = done.stdout.decode(errors="replace")
        passed = suite.passed(text, Path(results))
    return (passed if done.returncode == 0 else passed - {""}), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder")
    parser.add_argument("suite", choices=["piglit", "conformance"])
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    kind = {"piglit": Piglit, "conformance": Conformance}[arguments.suite]
    folder = arguments.folder or kind.where
    if not os.path.isdir(folder):
        print(f"SKIP: {kind.missing}")
        return 77
    suite = kind(Path(folder))
    platform = {**os.environ, **suite.environment}
    native = {name: value for name, value in platform.items() if name != "OCL_ICD_VENDORS"}

    def compare(test):
        name, command = test
        natively, _ = result_of(suite, command, native)
        there, said = result_of(suite, [*arguments.mpirun, *command], platform)
        return name, natively, natively - there, said

    chosen = [test for test in suite.tests() if test[0] not in suite.left_out and re.search(arguments.only, test[0])]
    for name, why in suite.left_out.items():
        print(f"left out: {name}: {why}")
    passed = failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for done, (name, natively, lost, said) in enumerate(pool.map(compare, chosen), 1):
            passed += not lost and "" in natively
            failed += bool(lost)
            if lost:
                print(f"FAILED: {name}: {', '.join(sorted(part or 'the test' for part in lost))}: passes natively\n{said}")
            if done % 50 == 0:
                print(f"{done} of {len(chosen)}", flush=True)
    print(f"{len(chosen)} tests: {passed} pass natively and here, {failed} natively only")
    return 1 if failed or not chosen else 0


sys.exit(main())
