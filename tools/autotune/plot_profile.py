#!/usr/bin/env python3
"""Draws the measurements of `cldist tune --plot`.

    plot_profile.py DATA.json PICTURE.png
"""

import json
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
except ImportError as missing:
    print(f"drawing needs matplotlib (Debian: python3-matplotlib), which {sys.executable} does not have: {missing}")
    sys.exit(3)

COLOURS = {"whole": "#999999", "whole, mapped": "#555555", "mapped": "#0072b2", "chunked": "#e69f00",
           "chunked, mapped": "#009e73", "staged": "#cc79a7", "shared": "#56b4e9", "shared, mapped": "#56b4e9", "peer-to-peer": "#d55e00"}
CEILINGS = ["#d62728", "#8c564b", "#7f3fbf"]


def size_text(size, _=None):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def draw(axes, route):
    # The chosen path lies below the paths it consists of.
    axes.plot(*zip(*route["chosen"]), color="black", alpha=0.25, linewidth=8, solid_capstyle="round", label="chosen")
    for path in route["paths"]:
        axes.plot(*zip(*path["points"]), color=COLOURS.get(path["label"]), marker="o", markersize=4, linewidth=1.6,
                  label=path["label"])
    for ceiling, colour in zip(route["ceilings"], CEILINGS):
        axes.plot(*zip(*ceiling["points"]), color=colour, linestyle="--", linewidth=1.2, label=ceiling["label"])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(route["name"])
    axes.set_xlabel("size")
    axes.set_ylabel("GB/s")
    axes.xaxis.set_major_locator(ticker.LogLocator(base=4, numticks=12))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(size_text))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="x", labelrotation=45)
    axes.grid(True, which="major", alpha=0.4)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)
    routes = data["routes"]
    columns = min(len(routes), 2)
    rows = -(-len(routes) // columns)
    figure, all_axes = pyplot.subplots(rows, columns, figsize=(8 * columns, 5 * rows), squeeze=False)
    flat = [axes for row in all_axes for axes in row]
    for axes, route in zip(flat, routes):
        draw(axes, route)
    for axes in flat[len(routes):]:
        axes.remove()
    figure.suptitle(data["title"])
    figure.tight_layout()
    try:
        figure.savefig(sys.argv[2], format="png", dpi=110)
    except OSError as error:
        print(f"can't write {sys.argv[2]}: {error.strerror}")
        return 1
    return 0


sys.exit(main())
