#!/usr/bin/env python3
"""Draws the traces of CLDIST_TRACE: for each rank the kernels of its device, and the messages and files that move meanwhile.

Usage: timeline.py [--iterations N] [--output FILE] [TITLE=]FOLDER...

FOLDER is the value of CLDIST_TRACE. It contains one cldist-trace-RANK.json per rank, all with the same clock (one host).
Draws several folders below each other, on the same scale. For each rank, also prints how long messages and files moved,
and for which part of that time kernels ran, over the whole trace.
"""

import argparse
import json
import pathlib

KERNEL_COLORS = ["#2f6db3", "#7fb2e5", "#1d4a7d", "#a9cdf0"]
STAGES = {  # in the order in which they are drawn
    "match": ("#f3d9b1", "receive waits for its message"),
    "device": ("#e8a33d", "device copies or maps"),
    "message": ("#c8452b", "message moves"),
    "file": ("#4f8f4f", "file is read or written"),
}
IDLE = ("#ebebeb", "device idle")
LANES = {"send": "sends", "recv": "receives", "collective": "collectives", "file": "files"}  # name -> label, below the kernels
LANE_OF = {"file read": "file", "file write": "file"}  # commands that share a lane
KERNEL_HEIGHT, LANE_HEIGHT, GAP = 0.5, 0.18, 0.04


class Rank:
    """The work of one rank: kernels as (name, start, end), stages as (stage, lane, start, end), in milliseconds."""

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
                lane = LANE_OF.get(event["name"], event["name"])
                if lane in LANES:
                    lane_of[event["id"]] = lane
            elif event["ph"] == "e" and open_spans.get(key):
                spans.append((*key, open_spans[key].pop(), event["ts"] / 1e3))
        self.stages = [(name, lane_of[number], start, end)
                       for number, name, start, end in spans if name in STAGES and number in lane_of]

    def overlap(self):
        """Returns the milliseconds in which messages and files moved, and the part in which kernels ran."""
        moving = union((start, end) for _, _, start, end in self.stages)
        computation = union((start, end) for _, start, end in self.kernels)
        covered = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in moving for b in computation)
        return sum(end - start for start, end in moving), covered

    def window(self, iterations):
        """Returns the start and end of some iterations, well after the first one."""
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


def lanes_of(ranks):
    """Returns the lanes that some rank uses."""
    used = {lane for rank in ranks.values() for _, lane, _, _ in rank.stages}
    return [lane for lane in LANES if lane in used]


def what_moves(lanes):
    """Returns a description of what moves in these lanes; empty without lanes."""
    return " and ".join(["communication"] * (set(lanes) - {"file"} != set()) + ["file access"] * ("file" in lanes))


def title_of(lanes):
    """Returns the title of the whole picture."""
    return f"Computation with simultaneous {what_moves(lanes)}" if lanes else "Computation"


def draw(axes, title, ranks, begin, colors):
    end = begin + axes.get_xlim()[1]
    lanes = lanes_of(ranks)
    kernels_at = len(lanes) * (LANE_HEIGHT + GAP)
    places = {lane: (kernels_at - (n + 1) * (LANE_HEIGHT + GAP), LANE_HEIGHT) for n, lane in enumerate(lanes)}
    places["kernel"] = (kernels_at, KERNEL_HEIGHT)
    pitch = kernels_at + KERNEL_HEIGHT + 2 * GAP

    def bar(row, lane, start, stop, color):
        if stop > begin and start < end:
            low, height = places[lane]
            axes.broken_barh([(start - begin, stop - start)], (row * pitch + low, height), color=color, linewidth=0)

    ticks = []
    for row, (number, rank) in enumerate(reversed(ranks.items())):
        bar(row, "kernel", begin, end, IDLE[0])
        for name, start, stop in rank.kernels:
            bar(row, "kernel", start, stop, colors[name])
        for wanted in STAGES:
            for stage, lane, start, stop in rank.stages:
                if stage == wanted:
                    bar(row, lane, start, stop, STAGES[stage][0])
        for lane, label in [("kernel", f"rank {number}: computation")] + [(lane, LANES[lane]) for lane in lanes]:
            ticks.append((row * pitch + places[lane][0] + places[lane][1] / 2, label))
    axes.set_yticks([at for at, _ in ticks], [label for _, label in ticks])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.08, len(ranks) * pitch)
    axes.set_title(title + ("" if lanes else " (no cldist commands: the host program works in the gaps)"), loc="left", fontsize=11)
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

    import matplotlib  # imported here, because the tests of the functions above do not need it

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    panels = []
    for trace in arguments.traces:
        title, _, folder = trace.rpartition("=")
        panels.append((title or folder, read(folder)))

    windows = [next(rank for rank in ranks.values() if rank.kernels).window(arguments.iterations) for _, ranks in panels]
    width = max(end - begin for begin, end in windows)
    names = list(dict.fromkeys(name for _, ranks in panels for rank in ranks.values() for name, _, _ in rank.kernels))
    colors = {name: KERNEL_COLORS[n % len(KERNEL_COLORS)] for n, name in enumerate(names)}

    # The sizes are in inches, so that the margins do not depend on the number of ranks.
    heights = [len(ranks) * (0.6 + 0.25 * len(lanes_of(ranks))) for _, ranks in panels]
    lanes = {lane for _, ranks in panels for lane in lanes_of(ranks)}
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
    figure.suptitle(title_of(lanes), fontsize=13, y=1 - 0.15 / height, va="top")
    handles = [Patch(color=colors[name], label=name) for name in names] + [Patch(color=IDLE[0], label=IDLE[1])]
    used = {stage for _, ranks in panels for rank in ranks.values() for stage, _, _, _ in rank.stages}
    handles += [Patch(color=color, label=label) for stage, (color, label) in STAGES.items() if stage in used]
    figure.legend(handles=handles, loc="lower center", ncol=len(handles), frameon=False, fontsize=9)
    figure.savefig(arguments.output, dpi=130)

    for title, ranks in panels:
        for number, rank in ranks.items():
            total, covered = rank.overlap()
            if total > 0:
                print(f"{title}, rank {number}: {total:.1f} ms of {what_moves(lanes_of(ranks))}, "
                      f"kernels ran during {100 * covered / total:.0f} % of that time")
    print(f"The timeline is in {arguments.output}")


if __name__ == "__main__":
    main()
