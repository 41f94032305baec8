#!/usr/bin/env python3
"""Runs a job with CLDIST_TRACE and checks the traces it writes.

    check_trace.py FOLDER RANKS COMMANDS STAGES -- COMMAND...

A second run, whose traces meet a full disk, ends as well and says so once per rank. Each trace has spans of COMMANDS and STAGES, names with commas between them.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys


def check(events, rank, commands_wanted, stages_wanted):
    """What is wrong with the trace events of one rank."""
    complaints = []
    stages = collections.Counter()
    commands = []
    open_spans = {}
    for event in events:
        if event.get("pid") != rank:
            complaints.append(f"an event of another process: {event}")
        kind, name = event.get("ph"), event.get("name")
        if kind == "b":
            open_spans[(event["id"], name, len(open_spans))] = event["ts"]
            stages[name] += 1
            if name in commands_wanted:
                commands.append(event)
        elif kind == "e":
            begun = [key for key in open_spans if key[:2] == (event["id"], name)]
            if not begun:
                complaints.append(f"an end without a begin: {event}")
            elif open_spans.pop(begun[-1]) > event["ts"]:
                complaints.append(f"an end before its begin: {event}")
    if open_spans:
        complaints.append(f"{len(open_spans)} spans without an end")
    for wanted in commands_wanted + stages_wanted:
        if stages[wanted] == 0:
            complaints.append(f"no span named {wanted!r}")
    if not any(command.get("args", {}).get("bytes", 0) > 0 for command in commands):
        complaints.append("no command tells its bytes")
    return complaints


def check_full_disk(path, ranks, command):
    """What is wrong with a run whose traces meet a full disk."""
    for rank in range(ranks):
        file = path / f"cldist-trace-{rank}.json"
        file.unlink(missing_ok=True)
        file.symlink_to("/dev/full")
    done = subprocess.run(command, env=dict(os.environ, CLDIST_TRACE=str(path)), stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    complaints = [f"a full disk: exit status {done.returncode}: {done.stderr}"] if done.returncode else []
    for rank in range(ranks):
        line = f"CLDIST_TRACE: can't write {path}/cldist-trace-{rank}.json: No space left on device\n"
        if done.stderr.count(line) != 1:
            complaints.append(f"a full disk: expected once: {line}in: {done.stderr}")
    return complaints


def main():
    folder, ranks, commands, stages, separator, *command = sys.argv[1:]
    assert separator == "--"
    path = pathlib.Path(folder)
    shutil.rmtree(path, ignore_errors=True)
    status = subprocess.run(command, env=dict(os.environ, CLDIST_TRACE=folder), check=False).returncode
    complaints = [f"exit status {status}"] if status else []
    files = sorted(path.glob("*.json"))
    if len(files) != int(ranks):
        complaints.append(f"{len(files)} traces, expected {ranks}")
    for rank, file in enumerate(files):
        content = json.loads(file.read_text(encoding="utf-8"))
        complaints += [f"{file.name}: {complaint}" for complaint in check(content["traceEvents"], rank, commands.split(","), stages.split(","))]
    complaints += check_full_disk(path, int(ranks), command)
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


sys.exit(main())
