#!/usr/bin/env python3
"""Starts a job that never ends, and kills or stops one of its processes.

    disturb_rank.py kill|stop|write RANK -- MPIRUN...

The test begins after "runs" on standard error. kill: the rank gets SIGKILL at a random moment. The job must end within
seconds with a nonzero status, and leave no process behind. stop: the rank is stopped for a second. Meanwhile rank 0's
memory must not grow by more than 64 MiB. Then the rank is killed as above. write: the program prints "done" when it has
written 1 GiB ahead of its waits. Until then, the memory of the rank must not grow by more than 512 MiB. Pages that the
kernel may take at any time do not count. Then the rank is killed as above.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

SECONDS = 20
MIB_MORE = 64
MIB_OF_WRITES = 512


def processes_of(session):
    """The processes of the session by MPI rank; None for processes without rank."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            if int(fields[3]) != session or fields[0] == "Z":
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
        except (OSError, IndexError):
            continue
        rank = variables.get(b"OMPI_COMM_WORLD_RANK")
        found.setdefault(int(rank) if rank else None, []).append(int(name))
    return found


def resident_mib(process):
    with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
        kib = {line.split()[0]: int(line.split()[1]) for line in file if line.startswith(("Rss:", "LazyFree:"))}
    return (kib["Rss:"] - kib["LazyFree:"]) / 1024


def fail(job, text):
    os.killpg(job.pid, signal.SIGKILL)
    for processes in processes_of(job.pid).values():
        for process in processes:
            os.kill(process, signal.SIGKILL)
    sys.exit(text)


def main():
    what, rank = sys.argv[1], int(sys.argv[2])
    with subprocess.Popen(sys.argv[sys.argv.index("--") + 1:], start_new_session=True, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as job:
        lines = []
        for line in job.stderr:
            lines.append(line)
            if line.startswith("runs"):
                break
        else:
            sys.exit("the job ended before it ran: " + "".join(lines))
        # A rank may consist of several processes; this takes the one that was started last.
        ranks = {of: max(processes) for of, processes in processes_of(job.pid).items() if of is not None}
        if rank not in ranks:
            fail(job, f"there is no rank {rank} among {ranks}")
        if what == "write":
            before = most = resident_mib(ranks[rank])
            said = []
            reader = threading.Thread(target=lambda: said.append(job.stderr.readline()))
            reader.start()
            while reader.is_alive():
                most = max(most, resident_mib(ranks[rank]))
                reader.join(0.005)
            if said != ["done\n"]:
                fail(job, 'the program did not print "done"')
            if most > before + MIB_OF_WRITES:
                fail(job, f"rank {rank} grew from {before:.0f} to {most:.0f} MiB")
        time.sleep(random.uniform(0, 0.5))
        if what == "stop":
            os.kill(ranks[rank], signal.SIGSTOP)
            time.sleep(0.2)  # for messages in flight
            before = resident_mib(ranks[0])
            time.sleep(1)
            after = resident_mib(ranks[0])
            if after > before + MIB_MORE:
                fail(job, f"rank 0 grew from {before:.0f} to {after:.0f} MiB while rank {rank} was stopped")
            os.kill(ranks[rank], signal.SIGCONT)
        os.kill(ranks[rank], signal.SIGKILL)
        try:
            job.wait(SECONDS)
        except subprocess.TimeoutExpired:
            fail(job, f"the job runs on {SECONDS} s after rank {rank} was killed")
        if job.returncode == 0:
            sys.exit(f"the job succeeded although rank {rank} was killed")
        until = time.monotonic() + SECONDS
        while processes_of(job.pid) and time.monotonic() < until:
            time.sleep(0.05)
        if processes_of(job.pid):
            fail(job, f"processes were left behind: {processes_of(job.pid)}")


if __name__ == "__main__":
    main()
