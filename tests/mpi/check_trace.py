#!/usr/bin/env python3
"""Runs a job with CLDIST_TRACE and checks the traces it writes.

    check_trace.py FOLDER RANKS COMMANDS STAGES -- COMMAND...

COMMANDS and STAGES are names separated by commas. Each trace must have spans of all of them, and each stage must be within
its command. A second run writes its traces to a full disk: it must succeed and report that once. The same holds for runs
whose folder can't be created, or whose file belongs to another process.
"""

import collections
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys


STAGES = {"wait", "match", "device", "message", "file"}


def check(events, rank, commands_wanted, stages_wanted):
    """The errors in the trace events of one rank."""
    complaints = []
    stages = collections.Counter()
    commands = []
    open_spans = {}
    first = {}
    lanes, named = set(), set()
    for event in events:
        if event.get("pid") != rank:
            complaints.append(f"an event of another process: {event}")
        kind, name = event.get("ph"), event.get("name")
        (named if name == "thread_name" else lanes).add(event.get("tid"))
        if kind == "b":
            open_spans[(event["id"], name, len(open_spans))] = event["ts"]
            stages[name] += 1
            first.setdefault(event["id"], name)
        elif kind == "e":
            if name in commands_wanted:
                commands.append(event)
            begun = [key for key in open_spans if key[:2] == (event["id"], name)]
            if not begun:
                complaints.append(f"an end without a begin: {event}")
            elif open_spans.pop(begun[-1]) > event["ts"]:
                complaints.append(f"an end before its begin: {event}")
    outside = collections.Counter(name for name in first.values() if name in STAGES)
    if outside:
        complaints.append(f"spans that begin before the command that they belong to: {dict(outside)}")
    if lanes - named - {None}:
        complaints.append(f"lanes without a name: {lanes - named}")
    if open_spans:
        complaints.append(f"{len(open_spans)} spans without an end")
    for wanted in commands_wanted + stages_wanted:
        if stages[wanted] == 0:
            complaints.append(f"no span named {wanted!r}")
    if not any(command.get("args", {}).get("bytes", 0) > 0 for command in commands):
        complaints.append("no command tells its bytes")
    return complaints


def check_full_disk(path, ranks, command):
    """The errors of a run whose traces are written to a full disk."""
    for rank in range(ranks):
        file = path / f"cldist-trace-{rank}.json"
        file.unlink(missing_ok=True)
        file.symlink_to("/dev/full")
    done = subprocess.run(command, env=dict(os.environ, CLDIST_TRACE=str(path)), stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    complaints = [f"a full disk: exit status {done.returncode}: {done.stderr}"] if done.returncode else []
    for rank in range(ranks):
        if rank != 0 and f"cldist-trace-{rank}.json" in done.stderr:
            complaints.append(f"a full disk: rank {rank} says what rank 0 has said: {done.stderr}")
    line = f"CLDIST_TRACE: cannot write {path}/cldist-trace-0.json: No space left on device; rank 0 writes no trace from now on"
    if done.stderr.count(line) != 1:
        complaints.append(f"a full disk: expected once: {line}in: {done.stderr}")
    return complaints


def check_start(path, command):
    """The errors of a run whose folder can't be created, and of one whose file belongs to another process."""
    file = path / "cldist-trace-0.json"
    file.unlink(missing_ok=True)
    with open(file, "w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write("another's")
        other.flush()
        for folder, said in (("/proc/nope", "CLDIST_TRACE: cannot create the folder /proc/nope: No such file or directory; rank 0 writes no trace "),
                             (path, f"CLDIST_TRACE: cannot write {file}, which another process is writing: ")):
            done = subprocess.run(command, env=dict(os.environ, CLDIST_TRACE=str(folder)), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            if done.returncode or done.stdout.count(said) != 1:
                yield f"{folder}: exit status {done.returncode}, expected once: {said}in: {done.stdout}"
    if file.read_text(encoding="utf-8") != "another's":
        yield "another process's trace was written over"


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
    complaints += check_start(path, command)
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


sys.exit(main())
