"""The links that benchmarks of whole programs are measured over."""

import os
import shlex
import subprocess
import sys

LINKS = [("1 Gbit/s, 50 µs", "1gbit", ["--rate", "1gbit", "--delay", "50us"]),
         ("10 Gbit/s, 20 µs", "10gbit", ["--rate", "10gbit", "--delay", "20us"])]


def shared_memory(processes):
    """The command that starts a program in shared memory."""
    return [*shlex.split(os.environ.get("CLDIST_MPIRUN", "mpirun")), "-n", str(processes)]


def shaped(letter):
    """Yields (title, name, the command that starts two processes on two hosts) for each shaped link, while it is up. The
    lab is one of our own, named with `letter`. Says so, and yields nothing, where there can be none."""
    netlab = os.environ.get("CLDIST_NETLAB")
    if not netlab or os.geteuid() != 0:
        print("\nNo shaped links: they need CLDIST_NETLAB and root.")
        return
    os.environ.setdefault("NETLAB_NAME", f"{letter}{os.getpid() % 100000}b")  # names end in a letter
    for title, name, options in LINKS:
        try:
            # What `up` finds out about the link goes to stderr, beside the table.
            subprocess.run([netlab, "up", "2", *options], check=True, stdout=sys.stderr)
            yield title, name, [netlab, "run", "-n", "2", "--"]
        finally:
            subprocess.run([netlab, "down"], stdout=sys.stderr)
