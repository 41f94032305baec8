#!/usr/bin/env python3
"""Compares two results of the benchmarks, or two folders of results.

Compares only ratios that were measured within one run, and skips results without ratios. Unlike times, ratios can be
compared between machines.
Exits with status 1 if a ratio got worse by more than the tolerance.
"""

import argparse
import json
import pathlib
import sys


def ratios_of(result):
    """Returns {name: (value, whether higher is better)}."""
    if "variants" in result:  # Himeno
        speed = {variant["name"]: variant["mflops"] for variant in result["variants"]}
        return {f"himeno {result['size']}, {name} : {by}": (speed[name] / speed[by], True)
                for name in speed for by in ("serial", "handopt", "handtuned") if by in speed and name != by}
    return {ratio["name"]: (ratio["value"], ratio["better"] == "higher") for ratio in result.get("ratios", [])}


def load(path):
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        sys.exit(f"compare: no results in {path}")
    found = {}
    for file in files:
        found.update(ratios_of(json.loads(file.read_text())))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=10, metavar="PERCENT", help="how much worse a ratio may get (default 10)")
    parser.add_argument("--all", action="store_true", help="print all ratios, not only those that changed")
    arguments = parser.parse_args()
    old, new = load(arguments.old), load(arguments.new)

    compared = worse = 0
    print("| ratio | old | new | better by |  |\n|---|---:|---:|---:|---|")
    for name, (value, higher_is_better) in new.items():
        if name not in old or not old[name][0] or not value:
            continue
        compared += 1
        gain = value / old[name][0] if higher_is_better else old[name][0] / value
        percent = (gain - 1) * 100
        is_worse = gain < 1 - arguments.tolerance / 100
        worse += is_worse
        if is_worse or arguments.all or abs(percent) > arguments.tolerance:
            print(f"| {name} | {old[name][0]:.2f} | {value:.2f} | {percent:+.0f} % | {'WORSE' if is_worse else ''} |")
    print(f"\n{compared} ratios compared, {worse} worse by more than {arguments.tolerance:g} %; "
          f"{len(old.keys() - new.keys())} only in the old results, {len(new.keys() - old.keys())} only in the new.")
    if not compared:
        sys.exit("compare: the results have no ratio in common")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
