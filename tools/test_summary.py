#!/usr/bin/env python3
"""Sums up test runs: counts test cases, and lists failures and skipped tests.

Usage: test_summary.py [--filter TEXT] [--skipped RUN=WHAT]... RUN=STATUS[=LOG]...

RUN is the name of a run, and STATUS the exit status of its build and tests. LOG is Meson's log of the tests,
BUILD_FOLDER/meson-logs/*.json. Leave it out if the build failed. A doctest program counts with its cases, another test
as one. In a log named filtered.json, programs chose their cases by the filter. There, tests without cases count only if
they failed. --skipped names what a run left out. The last line is "N passed, N failed". The exit status is 0 only if
something passed and nothing failed.
"""

import argparse
import json
import pathlib
import re
import sys

# Two rules keep a broken run from looking green. A program that failed counts at least one failure.
# So does a run that failed without naming a failure.

CASES = re.compile(r"\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed")
FAILED_CASE = re.compile(r"^(?:TEST CASE:|FAILED\s+[\d.]+ s)\s+(.*\S)", re.MULTILINE)
# The failed checks of an MPI job: the line of the rank, and the indented lines below it.
CHECK = re.compile(r"^\[rank \d+\] .*(?:\n[ \t]+.*)*", re.MULTILINE)
SKIP = re.compile(r"^\s*SKIP: (.*\S)", re.MULTILINE)
COLOR = re.compile("\x1b\\[[0-9;]*m")
DOCTEST = "[doctest] doctest version"


class Sum:
    def __init__(self):
        self.passed = 0
        self.failures = []  # [name, count, lines that give the reason]
        self.skips = {}  # description -> names of runs

    @property
    def failed(self):
        return sum(failure[1] for failure in self.failures)

    def add_skip(self, what, run):
        self.skips.setdefault(what, []).append(run)

    def add_test(self, run, test, filtered):
        name, result = test["name"], test["result"]
        output = COLOR.sub("", test.get("stdout", "") + "\n" + test.get("stderr", "")).replace("\r", "")
        ended_well = result in ("OK", "EXPECTEDFAIL")
        skips = list(dict.fromkeys(SKIP.findall(output)))

        if result == "SKIP":
            for what in skips or [f"{name}: no reason given"]:
                self.add_skip(what, run)
            return

        # If there are several summaries (one per process), the worst one counts.
        summaries = [tuple(map(int, found)) for found in CASES.findall(output)]
        if not summaries:
            if not ended_well:
                self.failures.append([f"{run}: {name} ({result.lower()})", 1, reasons(output)])
            elif DOCTEST in output:
                self.failures.append([f"{run}: {name} (ended without a summary)", 1, reasons(output)])
            elif not filtered:
                self.passed += 1
            return

        total, passed, failed = max(summaries, key=lambda found: found[2])
        for what in skips:
            self.add_skip(what, run)
        self.passed += max(0, passed - len(skips))
        if failed:
            cases = ", ".join(dict.fromkeys(FAILED_CASE.findall(output)))
            self.failures.append([f"{run}: {name}" + (f": {cases}" if cases else ""), failed, reasons(output)])
        elif not ended_well:
            self.failures.append([f"{run}: {name} ({result.lower()} after its last case)", 1, reasons(output)])
        elif total == 0 and not filtered:
            self.failures.append([f"{run}: {name} (has no test cases)", 1, []])

    def add_run(self, run, status, log):
        failed_before = self.failed
        tests = read_log(log) if log else []
        for test in tests:
            self.add_test(run, test, log.name == "filtered.json")
        if not log:
            self.failures.append([f"{run}: the build", 1, []])
        elif not tests:
            self.failures.append([f"{run}: no test ran", 1, []])
        elif status != 0 and self.failed == failed_before:
            self.failures.append([f"{run}: the tests ended with status {status}", 1, []])


def reasons(output):
    """Returns a few lines that show why a test failed: its failed checks, or the end of its output."""
    checks = [line for check in CHECK.findall(output) for line in check.splitlines()]
    return checks[:30] or [line for line in output.splitlines() if line.strip()][-12:]


def read_log(path):
    """Returns one entry per test, with its name without the project and suite."""
    if not path.is_file():
        return []
    tests = [json.loads(line) for line in path.read_text(errors="replace").splitlines() if line.strip()]
    for test in tests:
        # Meson writes "project:suite / name", or only the name.
        test["name"] = re.sub(r"^[^ /]+:[^/]* / ", "", test["name"])
    return tests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="")
    parser.add_argument("--skipped", action="append", default=[], metavar="RUN=WHAT")
    parser.add_argument("runs", nargs="*", metavar="RUN=STATUS[=LOG]")
    arguments = parser.parse_args()

    result = Sum()
    for text in arguments.skipped:
        run, what = text.split("=", 1)
        result.add_skip(what, run)
    for text in arguments.runs:
        run, status, *log = text.split("=", 2)
        result.add_run(run, int(status), pathlib.Path(log[0]) if log else None)
    if result.passed + result.failed == 0:
        what = f'no test matches "{arguments.filter}"' if arguments.filter else "no test ran"
        result.failures.append([what, 1, []])

    if result.skips:
        print("\nSkipped:")
        for what, runs in sorted(result.skips.items()):
            print(f"  {what} ({', '.join(dict.fromkeys(runs))})")
    if result.failures:
        print("\nFailed:")
        for what, _, lines in result.failures:
            print(f"  {what}")
            for line in lines:
                print(f"      {line}")
    print(f"\n{result.passed} passed, {result.failed} failed")
    sys.exit(0 if result.failed == 0 and result.passed > 0 else 1)


if __name__ == "__main__":
    main()
