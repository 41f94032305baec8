#!/usr/bin/env python3
"""Runs programs that query the system with `cldist run`. Checks that all processes get the same answers.

    check_hosts.py CLDIST openmpi|mpich FOLDER PROGRAM OPENCL_PROGRAM MPI_PROGRAM [OPTION]...

OPENCL_PROGRAM also uses OpenCL, MPI_PROGRAM uses MPI. The OPTIONs are for `cldist run`. FOLDER is recreated for files.
"""

import collections
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

CLDIST, MPI, FOLDER, PROGRAM, OPENCL, MPI_PROGRAM, OPTIONS = (
    *sys.argv[1:3], Path(sys.argv[3]), *sys.argv[4:7], sys.argv[7:])
OUTPUTS = FOLDER.with_name(FOLDER.name + "-outputs")
SECONDS = 100
ALL = ["random", "time", "identity", "files", "places", "paths", "names", "printing", "children", "threads", "pool", "polling", "loaded", "signals", "full"]
complaints = []


def expect(holds, what, *details):
    if not holds:
        complaints.append(what)
        print("FAILED:", what, *details, sep="\n  ")


def run(ranks, program, *options, **variables):
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLDIST_HOST_")}
    environment.update(variables)
    command = [CLDIST, "run", *OPTIONS, "-n", str(ranks), "--devices", "cpu", *options, "--", *map(str, program)]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False,
                          timeout=SECONDS)
    print("$", *command, f"-> {done.returncode}", done.stdout, done.stderr, sep="\n", flush=True)
    return done


def run_all(ranks, program, *options, **variables):
    """Like run(), but stdout is each process's own output, one after another: mpirun would mix their lines."""
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    shell = 'exec "$@" > "$0/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"'
    done = run(ranks, ["sh", "-c", shell, OUTPUTS, *program], "--all-output", *options, **variables)
    done.stdout = "".join((OUTPUTS / str(rank)).read_text() for rank in range(ranks))
    print(done.stdout)
    return done


def differing(done, ranks):
    """The lines that the processes have not all printed equally often."""
    counts = collections.Counter(done.stdout.splitlines())
    return sorted(line for line, count in counts.items() if count % ranks != 0)


def check_same(ranks, program, what):
    done = run_all(ranks, program)
    expect(done.returncode == 0, f"{what}, {ranks} processes: the program succeeds", done.stderr)
    expect("end" in done.stdout.splitlines() and not differing(done, ranks),
           f"{what}, {ranks} processes: all processes print the same", *differing(done, ranks))
    expect("cldist run:" not in done.stderr, f"{what}, {ranks} processes: no differences are reported", done.stderr)
    return done


def check_program():
    for ranks in 1, 2, 4:
        done = check_same(ranks, [PROGRAM, FOLDER, *ALL], "all parts")
        lines = done.stdout.splitlines()
        for line in ("counted 20 ", "forked 5 ", "pclose 0 ", "kill 0 1 ", "fstream 0 ", "write -1 28 ", "fflush -1 28 1 ",
                     "full dprintf -1 28 ", "wide 7 1 1 ", "wide line 1 7 1 ", "__openat_2 6 opened ",
                     "made 0 0 0 0 0 ", "made -1 -1 -1 -1 -1 ", "link/.. in outer in outer -1 0 ", "none/.. -1 2 ", "a file as a folder -1 ",
                     "empty path -1 2 -1 2 1 2 1 2 "):
            expect(line in lines, f"{ranks} processes: {line}")
        left = sorted(path.name for path in FOLDER.iterdir())
        expect(left == sorted(["by-children", "count", "full", *(f"thread{i}" for i in range(8))]),
               f"{ranks} processes: the files are those of one process", left)
        expect((FOLDER / "by-children").read_text() == "x\n" and (FOLDER / "count").read_text() == "20",
               f"{ranks} processes: their contents were written once")


def check_output():
    for part, lines in ("identity", 1), ("printing", 2):
        done = run(3, [PROGRAM, FOLDER, part])
        expect(done.returncode == 0 and done.stderr.count("to standard error") == lines and done.stdout.count("end") == 1,
               f"the program's output appears once: {part}", done.stderr)


def check_closed_outputs():
    """Output must not get into memory whose descriptor took the number of a closed one: the second program would not
    find rank 0's answers there."""
    program = 'echo 0123456789 >&%d; exec "$0" "$1" random >"$2/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"'
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    for descriptor, closed in (1, ">&-"), (2, "2>&-"), (1, "<&- >&- 2>&-"):
        command = [CLDIST, "run", "-n", "2", "sh", "-c", program % descriptor, PROGRAM, FOLDER, OUTPUTS]
        done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command], stdin=subprocess.DEVNULL, check=False,
                              timeout=SECONDS)
        drawn = [(OUTPUTS / str(rank)).read_text() for rank in range(2)]
        expect(done.returncode == 0 and drawn[0] == drawn[1] != "", f"{closed}: all processes draw the same numbers", drawn)


def check_choice():
    done = run_all(2, [PROGRAM, FOLDER, "random", "identity"], CLDIST_HOST_WRAP="identity")
    unlike = differing(done, 2)
    expect(any(line.startswith("getrandom") for line in unlike) and not any(line.startswith("identity") for line in unlike),
           "CLDIST_HOST_WRAP selects the wrapped calls", *unlike)
    done = run_all(2, [PROGRAM, FOLDER, "identity"], CLDIST_HOST_WRAP="off")
    expect(any(line.startswith("identity") for line in differing(done, 2)), "off wraps nothing")
    done = run(2, [PROGRAM, FOLDER, "identity"], CLDIST_HOST_WRAP="random,clock")
    expect(done.returncode == 2 and '"clock" is invalid; expected ' in done.stderr, "an unknown group is reported", done.stderr)


def check_unreachable():
    """Rank 1 gets wrong places, as if a firewall or another /proc hid the right ones."""
    for options, variable, place, what in (
            (["--hosts", "localhost:2"], "CLDIST_HOST_HUB", "${CLDIST_HOST_HUB%@*}@127.0.0.1:1",
             r"cannot connect to `cldist run` at 127\.0\.0\.1:1 \(Connection refused\); allow TCP connections between the hosts"),
            ([], "CLDIST_HOST_CHANNEL", "/no/such/memory",
             "cannot open /no/such/memory of `cldist run`: No such file or directory; let processes see each other in /proc")):
        if options and shutil.which("ssh") is None and shutil.which("rsh") is None:
            print("SKIP: --hosts: ssh is not installed")
            continue
        # mpirun starts this shell, and the shell starts the rank.
        shell = f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ] || export {variable}="{place}"; exec "$@"'
        before = [f"--mpirun-option={part}" for part in ("sh", "-c", shell, "sh")]
        done = run(2, [PROGRAM, FOLDER, "random", "files"], *options, *before)
        expect(done.returncode == 1 and re.search(
            rf"^cldist run: rank 1 \(host \S+\) {what}, or set CLDIST_HOST_WRAP=off, .*$", done.stderr, re.MULTILINE),
            f"a rank without a connection ends the job with a report {options}", done.returncode, done.stderr)


def check_shifted_clock():
    """The clock of rank 0's host is far ahead, so a wait of rank 1 that kept rank 0's time would not end."""
    ahead = ["unshare", "-T", "--monotonic", "100000"]
    if (shutil.which("ssh") is None and shutil.which("rsh") is None or shutil.which("unshare") is None or
            subprocess.run([*ahead, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0):
        print("SKIP: clocks of different hosts: needs ssh and time namespaces")
        return
    shell = ('[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || exec "$@"; '
             f'LD_PRELOAD= exec {" ".join(ahead)} env LD_PRELOAD="$LD_PRELOAD" "$@"')
    done = run(2, ["sh", "-c", shell, "sh", PROGRAM, FOLDER, "futures"], "--hosts", "localhost:2", "--all-output")
    expect(done.returncode == 0 and done.stdout.count("future 1 1 1") == 2, "waits end at the time of the own host's clock", done)


def check_differing():
    # Rank 1 opens a different file from rank 0. Both files exist, because a failing process would
    # end the other one before its report.
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    for rank in range(2):
        (OUTPUTS / str(rank)).write_text(f"{rank}\n")
    shell = 'exec cat "$0/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"'
    done = run(2, ["sh", "-c", shell, OUTPUTS])
    expect("rank 1 called open" in done.stderr and "with other arguments" in done.stderr and done.returncode == 0,
           "different calls are reported, and the program continues", done.stderr)


def check_chance():
    done = run_all(2, [PROGRAM, FOLDER, "chance", "random"])
    expect(done.returncode == 0 and not differing(done, 2) and "end" in done.stdout.splitlines(),
           "threads may read the clock any number of times, and all other answers are the same", *differing(done, 2), done.stderr)
    expect("cldist run:" not in done.stderr, "clock queries of threads are not reported", done.stderr)


def check_callbacks():
    for ranks in 2, 3:
        check_same(ranks, [OPENCL, FOLDER, "callbacks"], "callbacks")
        lines = (FOLDER / "callbacks").read_text().splitlines()
        expect(sorted(lines) == 20 * ["event"] + 20 * ["memory"], f"{ranks} processes: callbacks write a file once", lines)


def check_mpi():
    done = run(2, [MPI_PROGRAM])
    expect(done.returncode == 0 and done.stdout == "received 1\n" and "the program uses MPI itself" in done.stderr,
           "a process does not wait for rank 0's clock if rank 0 waits for it by MPI", done.stdout, done.stderr)
    done = run(2, [MPI_PROGRAM, "differ"])
    expect(done.returncode == 1 and "This program uses MPI itself" in done.stderr and
           "does not support programs that use MPI" in done.stderr and "runs the program in one process only" not in done.stderr,
           "the report for an MPI program lists only possible remedies", done.stderr)
    if MPI == "openmpi":
        done = run(2, [MPI_PROGRAM, "single"])
        expect("clGetDeviceIDs returned -1201" in done.stdout and "MPI runs at MPI_THREAD_SINGLE" in done.stderr,
               "a program that calls MPI_Init gets no devices, and a message states why", done.stdout, done.stderr)
        done = run(2, [MPI_PROGRAM, "child", OPENCL, FOLDER, "devices"])
        expect(done.returncode == 0 and "devices 1\n" in done.stdout and "received 1\n" in done.stdout and
               done.stderr.count("a process that started this one has called MPI_Init") == 1,
               "a child of a program that uses MPI sees its own devices", done.stdout, done.stderr)


def check_choices_without_run():
    """Without deterministic system calls, the report of differing calls recommends them."""
    done = run(2, [OPENCL, FOLDER, "differ"], CLDIST_HOST_WRAP="off")
    expect(done.returncode == 1 and "CLDIST_HOST_WRAP is off. With `cldist run -n N PROGRAM`" in done.stderr,
           "without rank 0's answers the report of different calls mentions them", done.stderr)


def check_children():
    apart = "this program finds only the OpenCL devices of its own process"
    done = run_all(2, [OPENCL, FOLDER, "child"])
    expect(done.returncode == 0 and collections.Counter(done.stdout.splitlines()) ==
           {"devices 1": 2, "end": 4, "child 0": 2} and done.stderr.count(apart) == 1,
           "a child of a process that has joined the job sees its own devices", done.stdout, done.stderr)
    done = run_all(2, [OPENCL, FOLDER, "inherited"])
    expect(done.returncode == 0 and done.stdout.splitlines().count("child 0") == 2,
           "a forked child's calls with inherited objects fail", done.stdout, done.stderr)
    done = run(2, [OPENCL, FOLDER, "system"])
    expect(done.returncode == 0 and done.stdout.splitlines() == ["devices 1", "end", "system 0", "end"]
           and done.stderr.count("only rank 0 runs this program; " + apart) == 1,
           "system() of a program that uses OpenCL", done.stdout, done.stderr)
    # subprocess closes all descriptors in the child, so MPICH's connection is closed only there.
    subprocesses = ("import os, subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)\n"
                    "os.execv(sys.argv[1], sys.argv[1:])")
    for what, program, with_mpich in (
            ("a program that has waited for a child with OpenCL", [OPENCL, FOLDER, "probe"], (2, 1)),
            ("a program after another one",
             ["sh", "-c", '"$0" "$1" devices && exec "$0" "$1" devices', OPENCL, FOLDER], (2, 1)),
            ("a program after Python's subprocess", [sys.executable, "-c", subprocesses, OPENCL, FOLDER, "devices"], (1, 2))):
        for central in False, True:
            options = ["--host-mode", "central"] if central else []
            done = run(2, program, *options)
            again = MPI == "openmpi"
            lines = [line for line in done.stdout.splitlines() if line.startswith("devices")]
            expect(done.returncode == 0 and lines == [f"devices {n}" for n in ((2, 2) if again else with_mpich)] and
                   done.stderr.count(apart) == (0 if again else 1), f"{what} sees its devices {options}", done.stdout, done.stderr)


def check_python():
    program = """
import os, random, sys, tempfile, time, uuid
print(random.random(), time.time(), uuid.uuid4(), uuid.uuid1(), os.getpid(), hash("text"))
with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as file:
    file.write(b"x")
    file.flush()
    print(file.name, os.path.getsize(file.name))
with open(sys.argv[1] + "/log", "a") as log:
    print("once", file=log)
print(open(sys.argv[1] + "/log").read())
print("end")
"""
    check_same(2, [sys.executable, "-c", program, FOLDER], "Python")
    expect((FOLDER / "log").read_text() == "once\n", "Python's file is written once")


def check_full_folder():
    """Rank 1 cannot write its private copies of the files that the program writes."""
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    write = 'import sys; open(sys.argv[1] + "/new", "w").write("x" * 5000)'
    append = 'import sys; open(sys.argv[1] + "/old", "a").write("x")'
    temporary = "import sys, tempfile; tempfile.mkstemp(dir=sys.argv[1])"
    full = "ulimit -f 1"  # Python ignores SIGXFSZ
    missing = "export CLDIST_HOST_FOLDER=/no/such/folder"
    for program, limit in (write, full), (append, full), (write, missing), (temporary, missing):
        (OUTPUTS / "old").write_text("x" * 5000)
        shell = f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 0 ] || {limit}; exec "$@"'
        done = run(2, ["sh", "-c", shell, "sh", sys.executable, "-c", program, OUTPUTS])
        expect(done.stderr.count("cldist run: rank 1 cannot write its private copies of files in ") == 1 and
               "free space there, or set TMPDIR" in done.stderr and "--stage" not in done.stderr,
               f"a folder without room is reported once: {limit}, {program}", done.returncode, done.stderr)


def check_sequence():
    """A shell runs two programs. Rank 0 starts the second while rank 1 still runs the first."""
    rank = 'int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK")))'
    program = f"""
import os, random, sys, time
late = 0.5 * {rank}
time.sleep(late)
with open(sys.argv[1], "a") as log:
    log.write("line\\n")
time.sleep(late)
with open(sys.argv[1]) as log:
    print(random.random(), log.read())
print("end")
"""
    log = FOLDER / "log"
    shell = 'echo begin >"$2" && for i in 1 2; do "$0" -c "$1" "$2" || exit 1; done'
    done = check_same(2, ["sh", "-c", shell, sys.executable, program, log], "two programs of a shell")
    expect(log.read_text() == "begin\nline\nline\n", "each of the two programs writes once", log.read_text())

    # Rank 1 opens one more file than rank 0, in the first or in the last program.
    FOLDER.mkdir(parents=True, exist_ok=True)
    more = f'import os; [open("/etc/passwd") for _ in range(1 + {rank})]'
    for what, programs, reports in (("first", [more, "pass"], ("its next program", "in an earlier program")),
                                    ("last", ["pass", more], ("rank 0 or the connection to it has ended",))):
        done = run(2, ["sh", "-c", '"$0" -c "$1" && "$0" -c "$2"', sys.executable, *programs])
        expect(done.returncode == 0 and all(report in done.stderr for report in reports),
               f"a further call in the {what} of two programs is reported", done.stderr)
    shell = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || exec cat /etc/passwd'
    done = run(2, ["sh", "-c", shell])
    expect(done.returncode == 0 and "rank 1 runs cat, but rank 0 has run no further program" in done.stderr,
           "a program that rank 0 has not run is reported", done.stderr)


def check_staged():
    """Rank 1 does not have the files in FOLDER: an empty file system hides them there."""
    program = """
import sys
for name in "one", "in/two", "one":
    with open(f"{sys.argv[1]}/{name}") as file:
        print(name, file.read())
    with open(f"{sys.argv[1]}/{name}", "a") as file:
        file.write(" and more")
print("end")
"""
    script = FOLDER.with_name(FOLDER.name + "-program.sh")
    script.write_text(f"""
        export FILES={shlex.quote(str(FOLDER))} PRELOAD="$LD_PRELOAD"
        mkdir -p "$FILES/in" && printf 1 >"$FILES/one" && printf 2 >"$FILES/in/two" || exit 1
        [ "$OMPI_COMM_WORLD_RANK" = 0 ] && exec "$@"
        LD_PRELOAD="" exec unshare -m sh -c 'mount -t tmpfs none "$FILES" && LD_PRELOAD="$PRELOAD" exec "$@"' sh "$@"
        """)
    program = ["sh", script, sys.executable, "-c", program, FOLDER]
    done = run_all(2, program, "--stage", FOLDER)
    expect(done.returncode == 0 and done.stdout == 2 * "one 1\nin/two 2\none 1 and more\nend\n",
           "files missing on another host are copied from rank 0's host", done.stderr)
    done = run_all(2, program)
    expect(f"rank 1 cannot open {FOLDER}/one" in done.stderr and f"--stage {FOLDER}/one" in done.stderr,
           "a file missing on another host is reported with the remedy", done.stderr)


if OPTIONS:
    check_staged()
    check_same(2, [PROGRAM, FOLDER, *ALL], "several hosts")
else:
    check_program()
    check_output()
    check_closed_outputs()
    check_choice()
    check_unreachable()
    check_shifted_clock()
    check_differing()
    check_chance()
    check_callbacks()
    check_mpi()
    check_choices_without_run()
    check_children()
    check_full_folder()
    check_sequence()
    check_python()
sys.exit(1 if complaints else 0)
