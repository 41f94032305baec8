#!/usr/bin/env python3
"""Compares the host programs of examples/smith_waterman over the size of their chunks.

They search a protein database that they read from a file. Hosts and sizes take turns in one process, so their ratios
can be compared. The tables show medians. All runs must give the same scores as a sequential reference.

Environment: BUILD_DIR. The database is generated in BUILD_DIR/bench-data.
Prints the table of the program and writes the numbers to BUILD_DIR/bench-results/smith_waterman.json. With matplotlib,
it also draws smith_waterman.png there.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import pictures

BLOCKS = "511,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M"
COLORS = {"serial": "#c8452b", "hand-optimised": "#e8a33d", "event-chained": "#2f6db3"}


def program(*arguments):
    command = [pathlib.Path(os.environ["BUILD_DIR"]) / "examples/smith_waterman/smith_waterman", *arguments]
    if subprocess.run(command).returncode != 0:
        sys.exit(f"smith_waterman: {' '.join(map(str, command))} failed")


def database_of(arguments):
    folder = pathlib.Path(os.environ["BUILD_DIR"]) / "bench-data"
    folder.mkdir(exist_ok=True)
    fasta, database = folder / "proteins.fasta", folder / "proteins.db"
    program("generate", "--residues", arguments.residues, fasta)
    program("pack", fasta, database)
    fasta.unlink()
    return database


def ratios(result):
    by_block = {}
    for series in result["series"]:
        by_block.setdefault(series["block"], {})[series["host"]] = series
    for block, hosts in by_block.items():
        for by in sorted(hosts.keys() - {"event-chained"} if "event-chained" in hosts else ()):
            for what, meaning in (("exposed", "exposed time"), ("total", "time in all")):
                yield {"name": f"smith_waterman, chunks of {size_name(block)}, event-chained : {by}, {meaning}",
                       "value": hosts["event-chained"][what] / hosts[by][what], "better": "lower"}


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def draw(result, path):
    plt = pictures.find_pyplot()
    if plt is None:
        return
    figure, (times, speeds) = plt.subplots(1, 2, figsize=(12, 4.6))
    for host in dict.fromkeys(series["host"] for series in result["series"]):
        mine = sorted((s for s in result["series"] if s["host"] == host), key=lambda s: s["block"])
        blocks = [series["block"] for series in mine]
        color = COLORS[host]
        times.plot(blocks, [series["exposed"] * 1e3 for series in mine], "o-", color=color, label=host)
        speeds.plot(blocks, [series["gcups"] for series in mine], "o-", color=color, label=host)
        for series in mine:
            if host == "event-chained" and "saved" in series:
                times.annotate(f"{-100 * series['saved']:+.0f} %", (series["block"], series["exposed"] * 1e3), xytext=(8, 9),
                               textcoords="offset points", ha="center", fontsize=8, color=color)
    blocks = sorted({series["block"] for series in result["series"]})
    for axes, title in ((times, "Data transfer time that no kernel hides, ms"), (speeds, "Cell updates, 10⁹ per second")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(blocks[::2], [size_name(block) for block in blocks[::2]], rotation=45, ha="right", fontsize=8)
        axes.minorticks_off()
        axes.set_xlabel("size of a chunk")
        axes.set_title(title, loc="left", fontsize=11)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    times.set_yscale("log")
    times.margins(y=0.12)
    speeds.set_ylim(bottom=0)
    figure.suptitle(f"Smith-Waterman: {result['query_residues']} residues against {result['residues'] / 1e6:.1f} million, "
                    f"{result['device']}, {result['cache']} page cache", fontsize=12)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    print(f"\nThe picture is in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--residues", default="16M", help="size of the database (16M)")
    parser.add_argument("--blocks", default=BLOCKS)
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--check", default="100", help="how many percent of the scores to compare with the reference (default 100)")
    parser.add_argument("others", nargs="*", metavar="-- OPTION", help="options for 'smith_waterman search', such as --cache cold")
    arguments = parser.parse_args()

    # If PoCL is the device, it would use all cores and slow down the reading of files.
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(max(1, os.cpu_count() // 2)))

    results = pathlib.Path(os.environ["BUILD_DIR"]) / "bench-results/smith_waterman.json"
    results.parent.mkdir(exist_ok=True)
    program("search", "--blocks", arguments.blocks, "--rounds", arguments.rounds, "--check", arguments.check, "--json",
            results, *arguments.others, database_of(arguments))
    result = json.loads(results.read_text())
    result["ratios"] = list(ratios(result))
    results.write_text(json.dumps(result, ensure_ascii=False, indent=1))
    draw(result, results.with_suffix(".png"))


if __name__ == "__main__":
    main()
