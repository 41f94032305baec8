"""Matplotlib for the benchmarks' pictures, which do without it where it is missing."""

import sys


def find_pyplot():
    """Draws to files. None, said on standard error, where this Python has no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no picture without matplotlib (Debian: python3-matplotlib)", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    return pyplot
