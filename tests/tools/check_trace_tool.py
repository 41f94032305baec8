#!/usr/bin/env python3
"""Runs a job with CLDIST_TRACE and checks the output of `cldist trace` for its traces.

    check_trace_tool.py FOLDER RANKS CLDIST -- COMMAND...

The ranks share one kernel and one clock. So the measured offsets must be zero within the reported uncertainty.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

STAGES = {"wait", "match", "device", "message", "file"}


def tool(cldist, *arguments):
    return subprocess.run([cldist, "trace", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=60)


def counted(traces):
    """Returns the expected table: kind -> (count, bytes)."""
    kinds = collections.defaultdict(lambda: [0, 0])
    for trace in traces:
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                kinds["kernel " + event["name"]][0] += 1
            elif event["ph"] == "e" and event["name"] not in STAGES:
                kinds[event["name"]][0] += 1
                kinds[event["name"]][1] += event["args"]["bytes"]
    return kinds


def check_clocks(traces):
    for rank, trace in enumerate(traces):
        samples = trace["otherData"]["clock"]
        if len(samples) != (2 if rank > 0 else 0):
            yield f"rank {rank} has {len(samples)} clock samples"
        for sample in samples:
            if abs(sample["offset_ns"]) > sample["uncertainty_ns"]:
                yield f"rank {rank} has one clock with rank 0, but measured {sample}"


def check_table(output, kinds):
    for kind, (count, size) in kinds.items():
        numbers = rf"{count} +{size} " if size else rf"{count} +\S+ "
        if not re.search(rf"^{re.escape(kind)} +{numbers}", output, re.MULTILINE):
            yield f"no line for {kind!r} with {count} commands and {size} bytes"
    if not re.search(r"^send .*\d %$", output, re.MULTILINE):
        yield "does not tell how much of the sends lies under kernels"


def check_merged(path, traces):
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    timed = [event for event in events if "ts" in event]
    if len(timed) != sum("ts" in event for trace in traces for event in trace["traceEvents"]):
        yield f"{len(timed)} events are in the merged trace"
    if {event["pid"] for event in timed} != set(range(len(traces))):
        yield "the merged trace has not the ranks as processes"
    if min(event["ts"] for event in timed) != 0:
        yield "the merged trace does not begin at 0"
    if any(not event["id"].startswith(f"{event['pid']}.") for event in timed if "id" in event):
        yield "ids of several ranks are the same"


def check_format(path):
    """Checks the rules by which Perfetto imports Chrome's JSON format. Yields the errors."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    if trace.get("displayTimeUnit") not in ("ms", "ns"):
        yield "displayTimeUnit is neither ms nor ns"
    named = set()
    begun = collections.defaultdict(list)  # asynchronous events that have the same category and id
    for event in trace["traceEvents"]:
        fields = {"M": {"args": dict}, "X": {"ts": (int, float), "dur": (int, float), "tid": int},
                  "b": {"ts": (int, float), "cat": str, "id": str}, "e": {"ts": (int, float), "cat": str, "id": str}}
        wrong = [name for name, kind in {"name": str, "pid": int, **fields.get(event["ph"], {"a known ph": None})}.items()
                 if name not in event or not isinstance(event[name], kind)]
        if wrong:
            yield f"{wrong} of {event} has another type or is missing"
        elif event["ph"] == "M":
            kinds = {"process_name": ("name", str), "thread_name": ("name", str), "process_sort_index": ("sort_index", int)}
            field, kind = kinds.get(event["name"], ("a known name", str))
            if not isinstance(event["args"].get(field), kind):
                yield f"{field} of {event} has another type or is missing"
            named.add((event["name"], event["pid"], event.get("tid")))
        elif event["ph"] == "X" and event["dur"] < 0:
            yield f"{event} ends before it begins"
        elif event["ph"] == "b":
            begun[event["cat"], event["id"]].append(event)
        elif event["ph"] == "e":
            open_events = begun[event["cat"], event["id"]]
            at = next((i for i, begin in enumerate(open_events) if begin["name"] == event["name"]), None)
            if at is None or open_events.pop(at)["ts"] > event["ts"]:
                yield f"{event} has no begin"
    if any(begun.values()):
        yield "events have no end"
    for event in trace["traceEvents"]:
        if ("process_name", event["pid"], None) not in named:
            yield f"the process of {event} has no name"
        if event["ph"] == "X" and ("thread_name", event["pid"], event["tid"]) not in named:
            yield f"the thread of {event} has no name"


def check_nesting(path):
    """Perfetto cuts slices that overlap in one track and do not nest. A track is an id, or a thread."""
    tracks, open_slices = collections.defaultdict(list), collections.defaultdict(list)
    for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
        elif event["ph"] == "b":
            open_slices[event["id"], event["name"]].append(event["ts"])
        elif event["ph"] == "e":
            tracks[event["id"]].append((open_slices[event["id"], event["name"]].pop(), event["ts"], event["name"]))
    for track, slices in tracks.items():
        around = []
        for begin, end, name in sorted(slices, key=lambda slice: (slice[0], -slice[1])):
            while around and around[-1] <= begin:
                around.pop()
            if around and end > around[-1]:
                yield f"track {track}: {name} from {begin} to {end} is cut by a slice that ends at {around[-1]}"
            around.append(end)


def check_page(path, merged):
    text = path.read_text(encoding="utf-8")
    if re.search(r"https?://|src=|<link|@import|fetch\(", text):
        yield "the page loads other files"
    data = re.search(r'<script type="application/json" id="trace">(.*?)</script>', text, re.DOTALL)
    events = json.loads(merged.read_text(encoding="utf-8"))["traceEvents"]
    if not data or json.loads(data[1])["traceEvents"] != events:
        yield "the page does not contain the merged trace"
    if not re.search(r"<pre>kind [^<]*\nsend +\d+", text):
        yield "the page does not contain the table"
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("SKIP: the page in a browser: chromium is not installed")
        return
    shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent}/browser",
                            "--virtual-time-budget=5000", "--dump-dom", path.resolve().as_uri()],
                           text=True, capture_output=True, check=False, timeout=100)
    expected = sum(event["ph"] == "X" or event["ph"] == "b" and event["name"] not in STAGES for event in events)
    drawn = re.search(r'<body data-slices="(\d+)"', shown.stdout)
    if not drawn or int(drawn[1]) != expected:
        yield f"a browser draws {drawn and drawn[1]} of {expected} commands and kernels: {shown.stderr[-2000:]}"


def check_damage(cldist, folder, last):
    """Damages the trace of the last rank."""
    whole = last.read_text(encoding="utf-8")
    last.write_text(whole[:len(whole) // 2], encoding="utf-8")
    for what, expected in (("damaged", f"{last}: is damaged"), ("missing", f"{last} is missing")):
        if what == "missing":
            last.unlink()
        run = tool(cldist, folder)
        if run.returncode != 1 or expected not in run.stdout or "or leave these out with --partial" not in run.stdout:
            yield f"a {what} trace: status {run.returncode}, says {run.stdout!r}"
        run = tool(cldist, folder, "--partial")
        if run.returncode != 0 or expected not in run.stdout:
            yield f"a {what} trace with --partial: status {run.returncode}, says {run.stdout!r}"


def main():
    folder, ranks, cldist, separator, *command = sys.argv[1:]
    assert separator == "--"
    folder, ranks = pathlib.Path(folder), int(ranks)
    shutil.rmtree(folder, ignore_errors=True)
    status = subprocess.run(command, env=dict(os.environ, CLDIST_TRACE=str(folder)), check=False).returncode
    files = [folder / f"cldist-trace-{rank}.json" for rank in range(ranks)]
    if status != 0 or not all(file.exists() for file in files):
        print(f"FAILED: exit status {status} of the job, traces: {sorted(folder.glob('*'))}")
        return 1
    traces = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    for trace in traces:
        print(trace["otherData"])

    run = tool(cldist, folder, "--per-rank", "-o", folder / "out.json", "--html", folder / "page.html")
    print(run.stdout)
    complaints = [] if run.returncode == 0 else [f"cldist trace ended with {run.returncode}"]
    complaints += check_clocks(traces)
    for rank, trace in enumerate(traces):
        table = run.stdout.partition(f"\nrank {rank} (")[2].partition("\n\n")[0]
        complaints += [f"rank {rank}: {complaint}" for complaint in check_table(table, counted([trace]))]
    complaints += check_table(run.stdout.partition("\nall ranks\n")[2], counted(traces))
    complaints += check_merged(folder / "out.json", traces)
    complaints += check_format(folder / "out.json")
    complaints += check_nesting(folder / "out.json")
    complaints += check_page(folder / "page.html", folder / "out.json")
    complaints += check_damage(cldist, folder, files[-1])
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


sys.exit(main())
