#!/usr/bin/env python3
"""Draws the traces of CLDIST_TRACE: for each rank, what its device computes and what it exchanges meanwhile.

Usage: timeline.py [--iterations N] [--output FILE] [TITLE=]FOLDER...

FOLDER is what CLDIST_TRACE named, with one cldist-trace-RANK.json per rank, all of one clock (one host). Several folders
are drawn below each other, to the same scale. For each rank is printed in how much of the time of its communication
kernels were running, over the whole trace.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

KERNEL_COLORS = ["#2f6db3", "#7fb2e5", "#1d4a7d", "#a9cdf0"]
STAGES = {  # in the order in which they are drawn
    "match": ("#f3d9b1", "receive waits for its message"),
    "device": ("#e8a33d", "device copies or maps"),
    "message": ("#c8452b", "message moves"),
}
IDLE = ("#ebebeb", "device idle")
LANES = {"kernel": (0.42, 0.5), "send": (0.2, 0.18), "recv": (0.0, 0.18)}  # name -> lower edge, height


class Rank:
    """What one rank did: kernels as (name, start, end), stages as (stage, lane, start, end), in milliseconds."""

    def __init__(self, path):
        events = json.loads(path.read_text())["traceEvents"]
        self.kernels = sorted(
            ((e["name"], e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3) for e in events if e.get("cat") == "kernel"),
            key=lambda kernel: kernel[1])
        open_spans, spans, lane_of = {}, [], {}
        for event in events:
            if event.get("cat") != "cldist":
                continue
            key = event["id"], event["name"]
            if event["ph"] == "b":
                open_spans.setdefault(key, []).append(event["ts"] / 1e3)
                if event["name"] in LANES:
                    lane_of[event["id"]] = event["name"]
            elif event["ph"] == "e" and open_spans.get(key):
                spans.append((*key, open_spans[key].pop(), event["ts"] / 1e3))
        self.stages = [(name, lane_of.get(number, "send"), start, end)
                       for number, name, start, end in spans if name in STAGES]

    def overlap(self):
        """Milliseconds of communication, and how much of it kernels covered."""
        communication = union((start, end) for _, _, start, end in self.stages)
        computation = union((start, end) for _, start, end in self.kernels)
        covered = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in communication for b in computation)
        return sum(end - start for start, end in communication), covered

    def window(self, iterations):
        """From the start to the end of some iterations, well after the first."""
        count = min(iterations * len({name for name, _, _ in self.kernels}), len(self.kernels))
        first = min(len(self.kernels) * 2 // 3, len(self.kernels) - count)
        first -= first % len({name for name, _, _ in self.kernels})
        chosen = self.kernels[first:first + count]
        return chosen[0][1], max(end for _, _, end in chosen)


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    return merged


def read(folder):
    paths = {int(path.stem.rsplit("-", 1)[1]): path for path in pathlib.Path(folder).glob("cldist-trace-*.json")}
    ranks = {rank: Rank(path) for rank, path in sorted(paths.items())}
    if not ranks or not any(rank.kernels for rank in ranks.values()):
        raise SystemExit(f"timeline: no trace with kernels in {folder}")
    return ranks


def traced_messages(ranks):
    return any(rank.stages for rank in ranks.values())


def draw(axes, title, ranks, begin, colors):
    end = begin + axes.get_xlim()[1]
    messages = traced_messages(ranks)
    bottom = 0.0 if messages else LANES["kernel"][0]  # without messages, their lanes are left out
    pitch = 1.0 - bottom

    def bar(row, lane, start, stop, color):
        if stop > begin and start < end:
            low, height = LANES[lane]
            axes.broken_barh([(start - begin, stop - start)], (row * pitch + low - bottom, height), color=color, linewidth=0)

    ticks = []
    for row, (number, rank) in enumerate(reversed(ranks.items())):
        bar(row, "kernel", begin, end, IDLE[0])
        for name, start, stop in rank.kernels:
            bar(row, "kernel", start, stop, colors[name])
        for wanted in STAGES:
            for stage, lane, start, stop in rank.stages:
                if stage == wanted:
                    bar(row, lane, start, stop, STAGES[stage][0])
        labels = [("kernel", f"rank {number}: computation")] + [("send", "sends"), ("recv", "receives")] * messages
        for lane, label in labels:
            ticks.append((row * pitch + LANES[lane][0] + LANES[lane][1] / 2 - bottom, label))
    axes.set_yticks([at for at, _ in ticks], [label for _, label in ticks])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.08, len(ranks) * pitch)
    axes.set_title(title + ("" if messages else " (the host program calls MPI in the gaps)"), loc="left", fontsize=11)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def main():
    parser = argparse.ArgumentParser(description="Draws the traces that CLDIST_TRACE writes.")
    parser.add_argument("--iterations", type=int, default=4, help="how many iterations to draw (default 4)")
    parser.add_argument("--output", default="timeline.png")
    parser.add_argument("traces", nargs="+", metavar="[TITLE=]FOLDER")
    arguments = parser.parse_args()

    panels = []
    for trace in arguments.traces:
        title, _, folder = trace.rpartition("=")
        panels.append((title or folder, read(folder)))

    windows = [next(rank for rank in ranks.values() if rank.kernels).window(arguments.iterations) for _, ranks in panels]
    width = max(end - begin for begin, end in windows)
    names = list(dict.fromkeys(name for _, ranks in panels for rank in ranks.values() for name, _, _ in rank.kernels))
    colors = {name: KERNEL_COLORS[n % len(KERNEL_COLORS)] for n, name in enumerate(names)}

    # In inches, so that the margins stay as they are whatever the number of ranks.
    heights = [len(ranks) * (1.1 if traced_messages(ranks) else 0.6) for _, ranks in panels]
    top, between, bottom = 0.75, 0.75, 1.15
    height = top + sum(heights) + between * (len(panels) - 1) + bottom
    figure, grid = plt.subplots(len(panels), 1, figsize=(12, height), sharex=True, squeeze=False,
                                gridspec_kw={"height_ratios": heights})
    figure.subplots_adjust(left=0.13, right=0.985, top=1 - top / height, bottom=bottom / height,
                           hspace=between / (sum(heights) / len(heights)))
    for axes, (title, ranks), (begin, _) in zip(grid[:, 0], panels, windows):
        axes.set_xlim(0, width)
        draw(axes, title, ranks, begin, colors)
    grid[-1, 0].set_xlabel("milliseconds")
    figure.suptitle("Computation, and the communication under it", fontsize=13, y=1 - 0.15 / height, va="top")
    handles = [Patch(color=colors[name], label=name) for name in names] + [Patch(color=IDLE[0], label=IDLE[1])]
    handles += [Patch(color=color, label=label) for color, label in STAGES.values()]
    figure.legend(handles=handles, loc="lower center", ncol=len(handles), frameon=False, fontsize=9)
    figure.savefig(arguments.output, dpi=130)

    for title, ranks in panels:
        for number, rank in ranks.items():
            total, covered = rank.overlap()
            if total > 0:
                print(f"{title}, rank {number}: {total:.1f} ms of communication, "
                      f"{100 * covered / total:.0f} % of it while kernels ran")
    print(f"The time line is in {arguments.output}")


if __name__ == "__main__":
    main()
