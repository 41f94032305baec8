#!/usr/bin/env python3
"""Writes the tables and the pictures of docs/performance.md from bench/results.

Usage: performance.py [--check]. With --check it writes nothing and fails if a table is out of date.

A table is between `<!-- table: FOLDER/NAME KIND -->` and `<!-- end -->`. KIND is one of
- `plain`
- `speed COLUMN`: adds to each value its ratio to the value in COLUMN
- `rate COLUMN`: the inverse ratio, for seconds and microseconds
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/performance.md"
MARKED = re.compile(r"(<!-- table: (\S+) (\w+) ?([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def result(name):
    return json.loads((ROOT / "bench/results" / f"{name}.json").read_text())


def shown(value):
    if value is None:
        return ""
    if not isinstance(value, (int, float)):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def ratio(value, base, kind):
    if value is None or base is None:
        return shown(value)
    factor = value / base if kind == "speed" else base / value
    return f"{shown(value)} ({'**' if factor < 1 else ''}{factor:.2f}{'**' if factor < 1 else ''})"


def table(name, kind, column):
    data = result(name)
    columns = data["columns"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "|".join("---" if isinstance(data["rows"][0][i], str) else "---:"
                                                            for i in range(len(columns))) + "|"]
    base = columns.index(column) if column else None
    for row in data["rows"]:
        cells = [shown(value) if kind == "plain" or isinstance(value, str) or i == base else
                 ratio(value, row[base], kind) for i, value in enumerate(row)]
        lines.append("| " + " | ".join(cells) + " |")
    about = [data["unit"], data["machine"], data["driver"]] + ([data["mpi"]] if data["mpi"] != "none" else [])
    lines += ["", f"*{'; '.join(about)}. `{data['command']}` ([data](../bench/results/{name}.json)).*"]
    return "\n".join(lines) + "\n"


def bytes_of(size):
    number, unit = size.split()
    return float(number) * UNITS[unit]


def draw(pyplot):
    data = result("2026-11-28-two-h200/messages")
    sizes = [bytes_of(row[0]) for row in data["rows"]]
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, style in (("NCCL", "s--"), ("exportable buffers", "o-"), ("automatic", "o-"), ("shared path", "o-"),
                        ("MPI, host memory", "x:")):
        column = data["columns"].index(name)
        points = [(size, row[column]) for size, row in zip(sizes, data["rows"]) if row[column] is not None]
        axes.plot(*zip(*points), style, label=name)
    axes.axhline(450, color="grey", linewidth=1, label="NVLink, 18 links of 25 GB/s")
    axes.set(xscale="log", yscale="log", xlabel="message", ylabel="GB/s, one way")
    axes.set_xticks(sizes, [row[0] for row in data["rows"]])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(ROOT / "docs/bandwidth.png", dpi=100)

    data = result("2026-11-22-one-h200/smith-waterman")
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for column in (1, 2, 3):
        axes.plot([row[0] for row in data["rows"]], [row[column] for row in data["rows"]], "o-",
                  label=data["columns"][column].replace(", exposed ms", ""))
    axes.set(yscale="log", xlabel="chunk of the file", ylabel="ms not hidden by kernels")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(ROOT / "docs/streaming.png", dpi=100)


def main():
    current = PAGE.read_text()
    wanted = MARKED.sub(lambda m: m[1] + table(m[2], m[3], m[4].strip()) + m[5], current)
    if sys.argv[1:] == ["--check"]:
        sys.exit(None if wanted == current else "docs/performance.md is out of date: run bench/performance.py")
    if sys.argv[1:]:
        sys.exit(__doc__)
    PAGE.write_text(wanted)
    sys.path.insert(0, str(ROOT / "bench"))
    from pictures import find_pyplot
    pyplot = find_pyplot()
    if pyplot is not None:
        draw(pyplot)


if __name__ == "__main__":
    main()
