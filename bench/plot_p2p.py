#!/usr/bin/env python3
"""Draws bandwidth over size: every path in the results of bench/p2p, MPI, and the limits of the hardware.

    plot_p2p.py PICTURE.png RESULT.json... [--nccl OUTPUT] [--limit NAME=GB/S]... [--title TEXT]

RESULT.json is what `bench/run p2p` writes to BUILD_DIR/bench-results, one file for each path. Each path has a line for
blocking and a line for event-chained messages. MPI between host buffers has one line, the median of all results.
--nccl adds the output of bench/nccl.py. Needs matplotlib (Debian: python3-matplotlib); the exit status is 3 without it.
"""

import argparse
import json
import statistics
import sys

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"]
MPI_COLOUR = "#000000"
LIMITS = ["#8c564b", "#7f3fbf", "#17becf"]


def size_text(size, _=None):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def lines_of(results):
    """Returns [(label, colour, dashes, [(size, GB/s)])] for the results of bench/p2p."""
    lines = []
    mpi = {}
    for result, colour in zip(results, COLOURS * len(results)):
        points = {}
        for row in result["rows"]:
            if not row["us"]:
                continue
            speed = row["size"] / statistics.median(row["us"]) / 1e3
            if row["method"] == "mpi":
                mpi.setdefault(row["size"], []).append(speed)
            elif row["method"] in ("cldist", "cldist-event"):
                points.setdefault(row["method"], []).append((row["size"], speed))
        for method, dashes in (("cldist", "-"), ("cldist-event", ":")):
            if method in points:
                name = result["label"] + (", event-chained" if method == "cldist-event" else "")
                lines.append((name, colour, dashes, sorted(points[method])))
    if mpi:
        lines.append(("MPI, host memory", MPI_COLOUR, "-",
                      sorted((size, statistics.median(speeds)) for size, speeds in mpi.items())))
    return lines


def nccl_line(name):
    """Returns the output of bench/nccl.py as a line of the picture."""
    with open(name, encoding="utf-8") as file:
        rows = [line.split() for line in file if line.startswith("nccl ")]
    return "NCCL", "#d62728", "-.", [(int(row[1]), int(row[1]) / float(row[3]) / 1e3) for row in rows]


def limit(text):
    name, equals, speed = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=GB/S")
    return name, float(speed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture")
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("--nccl", metavar="OUTPUT")
    parser.add_argument("--limit", type=limit, action="append", default=[], metavar="NAME=GB/S")
    parser.add_argument("--title")
    arguments = parser.parse_args()
    results = []
    for name in arguments.results:
        with open(name, encoding="utf-8") as file:
            results.append(json.load(file))
    lines = lines_of(results)
    if not lines:
        print("the results contain no messages of cldist")
        return 1
    if arguments.nccl:
        lines.append(nccl_line(arguments.nccl))
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot, ticker
    except ImportError as missing:
        print(f"drawing needs matplotlib (Debian: python3-matplotlib), which {sys.executable} does not have: {missing}")
        return 3
    figure, axes = pyplot.subplots(figsize=(10, 6))
    for name, colour, dashes, points in lines:
        axes.plot(*zip(*points), linestyle=dashes, color=colour, marker="o", markersize=4, linewidth=1.6, label=name)
    for (name, speed), colour in zip(arguments.limit, LIMITS * len(arguments.limit)):
        axes.axhline(speed, color=colour, linestyle="--", linewidth=1.2, label=f"{name}: {speed:g} GB/s")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("size")
    axes.set_ylabel("GB/s, one way")
    axes.set_title(arguments.title or f"Messages between two processes, {results[0]['facts'].get('device', '')}")
    axes.xaxis.set_major_locator(ticker.LogLocator(base=4, numticks=16))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(size_text))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="x", labelrotation=45)
    axes.grid(True, which="major", alpha=0.4)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    figure.tight_layout()
    figure.savefig(arguments.picture, format="png", dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
