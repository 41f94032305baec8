#!/usr/bin/env python3
"""Runs `cldist doctor` and checks its lines and its exit status.

    check_doctor.py RANKS -- COMMAND...

RANKS is 0 for a run without mpirun. The last word of COMMAND is the path of cldist.
"""

import json
import os
import re
import subprocess
import sys

LEVELS = {"ok", "note", "WARNING", "PROBLEM"}
TOPICS = ["settings", "MPI library", "MPI thread level", "cores", "binding", "locked memory", "shared memory", "single copy",
          "open files", "huge pages", "core frequency", "OpenCL loader", "platform 0", "device 0.0",
          "cluster platform", "profile", "user event, other queues", "user event, out-of-order queue", "pageable copies", "error codes",
          "callbacks of failed events", "failed events", "profiling"]


def run(command, **environment):
    return subprocess.run(command, env=dict(os.environ, **environment), text=True, stdout=subprocess.PIPE, check=False,
                          timeout=100)


def check(findings, topics):
    """Yields the errors in a list of findings."""
    found = [finding["topic"] for finding in findings]
    for topic in topics:
        if topic not in found:
            yield f"no line about {topic!r}"
    for finding in findings:
        if finding["level"] not in LEVELS or not finding["fact"]:
            yield f"not a proper finding: {finding}"
        if finding["level"] != "ok" and not finding["advice"]:
            yield f"does not say what to do: {finding}"


def main():
    ranks, separator, *command = int(sys.argv[1]), *sys.argv[2:]
    assert separator == "--"
    topics = list(TOPICS)
    if ranks:
        topics += ["launcher", "idle ranks"] + [f"rank {rank}" for rank in range(ranks)]
        topics += [f"ranks {a} and {b}" for a in range(ranks) for b in range(a + 1, ranks)]
    complaints = []

    as_json = run([*command, "doctor", "--json"])
    print(as_json.stdout)
    answer = json.loads(as_json.stdout)
    complaints += check(answer["findings"], topics)
    problems = sum(finding["level"] == "PROBLEM" for finding in answer["findings"])
    if problems != answer["problems"] or (as_json.returncode == 1) != (problems > 0) or as_json.returncode not in (0, 1):
        complaints.append(f"exit status {as_json.returncode} with {problems} problems, told {answer['problems']}")

    # The findings as lines, with one problem: an unknown setting.
    wrong = run([*command, "doctor"], CLDIST_DEPHT="3")
    print(wrong.stdout)
    *lines, last = [line for line in wrong.stdout.splitlines() if line]
    pattern = re.compile(r"(ok|note|WARNING|PROBLEM) +([^:(]+)(?: \(.*?\))?: .+")
    findings = [(match[1], match[2]) for match in map(pattern.fullmatch, lines) if match]
    complaints += [f"not a finding: {line!r}" for line in lines if not pattern.fullmatch(line)]
    complaints += [f"no line about {topic!r}" for topic in topics if topic not in dict(map(reversed, findings))]
    if not any("CLDIST_DEPHT is not a setting; did you mean CLDIST_DEPTH?" in line for line in lines):
        complaints.append("does not find the misspelt setting")
    if not re.fullmatch(rf"{problems + 1} problems?, \d+ warnings?, \d+ notes?", last):
        complaints.append(f"ends with {last!r}, expected {problems + 1} problems")
    if wrong.returncode != 1:
        complaints.append(f"exit status {wrong.returncode} with a problem, expected 1")
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


sys.exit(main())
