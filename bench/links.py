"""The links over which benchmarks of whole programs run."""

import os
import shlex
import subprocess
import sys

LINKS = [("1 Gbit/s, 50 µs", "1gbit", ["--rate", "1gbit", "--delay", "50us"]),
         ("10 Gbit/s, 20 µs", "10gbit", ["--rate", "10gbit", "--delay", "20us"])]


def shared_memory(processes):
    """Returns the command that starts a program in shared memory."""
    return [*shlex.split(os.environ.get("CLDIST_MPIRUN", "mpirun")), "-n", str(processes)]


def shaped(letter):
    """Sets up each shaped link in turn and yields (title, name, the command that starts two processes on two hosts).

    Uses a network lab of its own, named with `letter`. Without one, prints so and yields nothing."""
    netlab = os.environ.get("CLDIST_NETLAB")
    if not netlab or os.geteuid() != 0:
        print("\nShaped links are skipped: they need CLDIST_NETLAB and root.")
        return
    # The name must end in a letter.
    os.environ.setdefault("NETLAB_NAME", f"{letter}{os.getpid() % 100000}b")
    for title, name, options in LINKS:
        try:
            # What `up` prints about the link goes to stderr, not into the table.
            subprocess.run([netlab, "up", "2", *options], check=True, stdout=sys.stderr)
            yield title, name, [netlab, "run", "-n", "2", "--"]
        finally:
            subprocess.run([netlab, "down"], stdout=sys.stderr)
