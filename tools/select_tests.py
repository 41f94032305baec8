#!/usr/bin/env python3
"""Prints Meson tests, one per line.

Usage: select_tests.py BUILD_FOLDER FILTER named    prints the tests with the filter in their name; run them without it
       select_tests.py BUILD_FOLDER FILTER cases    prints the others that may have such cases; run them with the filter
       select_tests.py BUILD_FOLDER FILE listed     prints the tests of a list, and reports those that this build lacks
"""

import json
import pathlib
import sys

SUITES_WITH_CASES = {"unit", "api", "mpi", "network"}


def listed(tests, file):
    lines = pathlib.Path(file).read_text().splitlines()
    wanted = [line for line in lines if not line.startswith("#")]
    names = {test["name"] for test in tests}
    for missing in (name for name in wanted if name not in names):
        print(f"{file}: this build has no test \"{missing}\"", file=sys.stderr)
    return [name for name in wanted if name in names]


def select(tests, text, which):
    for test in tests:
        named = text.lower() in test["name"].lower()
        has_cases = any(suite.split(":")[-1] in SUITES_WITH_CASES for suite in test["suite"])
        # A test that sets a filter itself runs only its own cases.
        own_filter = "CLDIST_TEST_FILTER" in test["env"] or any("--test-case" in word for word in test["cmd"])
        if which == "named" and named:
            yield test["name"]
        elif which == "cases" and not named and has_cases and not own_filter:
            yield test["name"]


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in ("named", "cases", "listed"):
        sys.exit(__doc__)
    folder, text, which = sys.argv[1:]
    tests = json.loads((pathlib.Path(folder) / "meson-info" / "intro-tests.json").read_text())
    # Adds the project name, because Meson reads the text before a colon as a project name.
    project = json.loads((pathlib.Path(folder) / "meson-info" / "intro-projectinfo.json").read_text())["descriptive_name"]
    names = listed(tests, text) if which == "listed" else dict.fromkeys(select(tests, text, which))
    print("\n".join(f"{project}:{name}" for name in names))


if __name__ == "__main__":
    main()
