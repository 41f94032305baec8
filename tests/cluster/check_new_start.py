#!/usr/bin/env python3
"""Checks when `cldist run` starts a job again with a central host, and what the user sees of it.

    check_new_start.py CLDIST PROGRAM CASE
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

CLDIST, PROGRAM, CASE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
SECONDS = 90
ANNOUNCEMENT = "cldist run: the job starts again with a central host, because "
DIFFER = ANNOUNCEMENT + "the processes' calls differ: rank 0's call "
REFUSAL = "cldist has not done this itself, because the program of rank 0 "
complaints = 0


def run(*steps, ranks=2, options=(), launch=(), text_in=None, **changes):
    """The lines of mpirun between dashes are not ours to check."""
    global complaints
    environment = {name: value for name, value in os.environ.items() if name != "CLDIST_HOST_MODE"}
    environment.update(changes)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([CLDIST, "run", *options, "-n", str(ranks), *launch, PROGRAM, *steps], cwd=folder,
                              env=environment, text=True, capture_output=True, check=False, timeout=SECONDS,
                              **({"stdin": subprocess.DEVNULL} if text_in is None else {"input": text_in}))
    print("$", *done.args, f"-> {done.returncode}", done.stdout, done.stderr, sep="\n", flush=True)
    return done


def expect(holds, what):
    global complaints
    if not holds:
        complaints += 1
        print("FAILED:", what, flush=True)


def expect_new_start(done, out="correct\n", status=0, why=ANNOUNCEMENT, also=()):
    """Standard error contains one line about the new start, and the lines `also`."""
    lines = [line for line in done.stderr.splitlines() if line not in also]
    expect(done.returncode == status, f"status {status}")
    expect(len(lines) == 1 and lines[0].startswith(why), "one line reports the new start")
    expect(done.stdout == out, f"standard output is {out!r}")
    for line in also:
        expect(done.stderr.splitlines().count(line) == 1, f"once: {line}")


def expect_none(done, reason, status=1):
    expect(done.returncode == status, f"status {status}")
    expect(ANNOUNCEMENT not in done.stderr and "correct" not in done.stdout, "no new start")
    expect("calls differ" in done.stderr, "the difference is reported")
    expect(reason is None and "itself, because" not in done.stderr or
           reason is not None and re.search(REFUSAL + reason + r"\.$", done.stderr, re.MULTILINE), f"the reason: {reason}")


def threads():
    for ranks in 2, 3:
        expect_new_start(run("threads", ranks=ranks))


def results():
    for ranks in 2, 3:
        for step in "trust", "trust-callbacks":
            expect_new_start(run(step, ranks=ranks))


def output():
    complaint = "a complaint"
    failed = f"cldist run: rank 0 (host {os.uname().nodename}) exited with status 5"
    expect_new_start(run("print", "complain", "print", "differ", "print", "exit-5"), "a line\na line\ncorrect\na line\n", 5,
                     DIFFER, [complaint, failed])
    expect_new_start(run("print", "print-mode", "print", "differ"),
                     "a line\nmode: auto\na line\nmode: central\na line\ncorrect\n", 0, DIFFER)
    expect_new_start(run("differ", launch=["sh", "-c", 'exec "$0" "$@" 2>/dev/null']))
    done = run("print-mode", "announce", "exit-1")
    expect(done.returncode == 1 and done.stdout == "mode: auto\n", "the program's own text starts no job")
    expect_new_start(run("read-file", "write-nothing", "buffer-input", "join", "differ", options=["--host-mode", "auto"]))
    done = run("differ", "abort")
    expect(done.returncode == 134 and done.stderr.count(ANNOUNCEMENT) == 1 and "killed by SIGABRT" in done.stderr,
           "the second run's end counts")


def effects():
    for steps, reason in (
            (["write"], "has opened a file for writing"),
            (["join", "write-by-open"], "has opened a file for writing"),
            (["write-device"], "has opened a file for writing"),
            (["folder"], "has changed a file or folder"),
            (["join", "remove"], "has changed a file or folder"),
            (["alarm"], "has changed a file or folder"),
            (["times"], "has changed a file or folder"),
            (["expand"], "has started another process"),
            (["socket"], "has used a socket"),
            (["log"], "has written to the system's log"),
            (["child"], "has started another process"),
            (["system"], "has started another process"),
            (["join", "fork"], "has started another process"),
            (["raw"], "has made a system call")):
        expect_none(run(*steps, "differ"), reason)
    expect_none(run("input", "differ", text_in="abc"), "has got standard input")
    expect_none(run("differ", text_in="abc"), "has got standard input")


def launchers():
    script = "was started by another program"
    expect_none(run("differ", launch=["sh", "-c", '"$0" "$@"; exit $?']), script)
    expect_none(run("differ", launch=["sh", "-c", 'echo begun; exec "$0" "$@"']), script)
    expect_none(run("differ", launch=["sh", "-c", 'ls >/dev/null; exec "$0" "$@"']), script)
    expect_none(run("differ", launch=["sh", "-c", 'exec "$0" "$@" >out']), "writes its output to a file")
    expect_none(run("differ", launch=["sh", "-c", 'exec "$0" "$@" 3>out']), "has inherited open files")


def modes():
    expect_none(run("differ", options=["--host-mode", "replicated"]), None)
    expect_none(run("differ", CLDIST_HOST_MODE="replicated"), None)
    done = run("differ", options=["--host-mode", "central"])
    expect(done.returncode == 0 and done.stdout == "correct\n" and not done.stderr, "a central host needs no new start")
    expect_new_start(run("differ", CLDIST_HOST_MODE="AUTO"), also=[
        "cldist: CLDIST_HOST_MODE=AUTO: expected one of auto, replicated, central; using the default"])
    expect_none(run("differ", CLDIST_HOST_WRAP="off"), r"runs without libcldist-host \(CLDIST_HOST_WRAP\)")
    done = run("differ", options=["--all-output"])
    expect(REFUSAL + "runs with --all-output." in done.stderr and done.returncode == 1, "the output of all ranks")


def ends():
    done = run("differ-last", ranks=3)
    expect(done.returncode == 0 and ANNOUNCEMENT in done.stderr or
           done.returncode == 1 and REFUSAL + "has ended." in done.stderr, "a new start or a report")


def turns():
    for step in "turns", "detached":
        done = run(step, ranks=3)
        expect(done.returncode == 0 and done.stdout == "correct\n" and not done.stderr, "threads in a fixed order")


def turns_by_rank():
    orders = "the threads of rank 0's and rank 1's programs make equal OpenCL calls in different orders"
    for ranks in 2, 3:
        expect_new_start(run("turns-by-rank", ranks=ranks), why=ANNOUNCEMENT + "the threads of rank ")
    done = run("write", "turns-by-rank-alike")
    expect(done.returncode == 0 and done.stdout == "correct\n", "without a new start, the program goes on")
    expect(done.stderr.count(orders) == 1 and "cannot start again" in done.stderr, "one warning")
    done = run("turns-by-rank-alike", options=["--host-mode", "replicated"])
    expect(done.returncode == 0 and not done.stderr, "an explicit mode does not compare threads")


def signals():
    for number in signal.SIGTERM, signal.SIGINT:
        with subprocess.Popen([CLDIST, "run", "-n", "2", PROGRAM, "differ", "wait"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            expect(job.stderr.readline().startswith(ANNOUNCEMENT), "the new start")
            if number == signal.SIGINT:  # waits until mpirun forwards signals
                job.stdout.readline()
            job.send_signal(number)
            _, err = job.communicate(timeout=SECONDS)
        print(number, job.returncode, err)
        expect(job.returncode == 128 + number, f"status {128 + number}")
        expect("starts again" not in err, "no third run")


{function.__name__: function for function in (threads, results, output, effects, launchers, modes, ends, turns,
                                           turns_by_rank, signals)}[CASE]()
sys.exit(1 if complaints else 0)
