"""Loads Matplotlib for the pictures of the benchmarks. Without it, they draw none."""

import sys


def find_pyplot():
    """Returns pyplot, set up to draw to files; None, after a message, if this Python has no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no picture is drawn: it needs matplotlib (Debian: python3-matplotlib)", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot
