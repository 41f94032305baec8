#!/usr/bin/env python3
"""Checks that the trace of a job on the cluster platform shows kernels next to messages, also of split kernels.

    check_trace.py FOLDER RANKS KERNEL -- COMMAND...

Each rank must have spans of the kernel and of messages.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main():
    folder, ranks, kernel = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(sys.argv[sys.argv.index("--") + 1:], check=True, env={**os.environ, "CLDIST_TRACE": str(folder)})
    for rank in range(ranks):
        events = json.loads((folder / f"cldist-trace-{rank}.json").read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        wrong = [span for span in spans if span["name"] != kernel or span["dur"] <= 0 or span["cat"] != "kernel"]
        if not spans or wrong:
            sys.exit(f"rank {rank}: {len(spans)} spans of kernels, wrong: {wrong[:3]}")
        if not any(event.get("name") == "message" for event in events):
            sys.exit(f"rank {rank}: the trace has no messages")


if __name__ == "__main__":
    main()
