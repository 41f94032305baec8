#!/usr/bin/env python3
"""Runs small programs with `cldist run` and checks their output, their exit status and their environment.

    check_run.py CLDIST openmpi|mpich FOLDER

FOLDER is created for files.
"""

import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

CLDIST, MPI, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
RANK = "r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; "
HOST = socket.gethostname()
SECONDS = 60
HAS_SSH = shutil.which("ssh") is not None or shutil.which("rsh") is not None
UNWANTED = ("POCL_(M|CPU)|OCL_ICD_|OPENCL_VENDOR|HWLOC_COMPONENTS|CLDIST_|OMPI_MCA_|PRTE_MCA_|"
            "SLURM_|PBS_|LSB_|PE_HOSTFILE")
complaints = []


def expect(holds, what, *details):
    if not holds:
        complaints.append(what)
        print("FAILED:", what, *details, sep="\n  ")


def environment(**changes):
    """A user's environment: without the settings for tests or other platforms."""
    result = {name: value for name, value in os.environ.items()
              if not re.match(UNWANTED, name)}
    result.update(changes)
    return result


def command(*arguments):
    return [CLDIST, "run", *map(str, arguments)]


def run(*arguments, env=None, text_in=""):
    done = subprocess.run(command(*arguments), env=env or environment(), input=text_in, text=True, capture_output=True,
                          check=False, timeout=SECONDS)
    print("$", *done.args, f"-> {done.returncode}", done.stdout[-2000:], done.stderr[-4000:], sep="\n", flush=True)
    return done


def own_lines(done):
    return [line for line in done.stderr.splitlines() if line.startswith("cldist run:")]


def without_banner(text):
    """Removes MPICH's message on standard output that it ended the other ranks."""
    return re.sub(r"\n=+\n(=   .*\n)+=+\n", "", text)


def wait_for(condition, what):
    for _ in range(SECONDS * 20):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError(what)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check_output():
    for ranks in 2, 3:
        done = run("-n", ranks, "sh", "-c", RANK + "echo out $r; echo err $r >&2")
        expect(done.returncode == 0 and done.stdout == "out 0\n", f"{ranks} ranks: only rank 0's output is shown")
        expect(sorted(line for line in done.stderr.splitlines() if line.startswith("err ")) ==
               [f"err {rank}" for rank in range(ranks)], f"{ranks} ranks: all write to standard error")
    done = run("-n", 3, "--all-output", "--", "sh", "-c", RANK + "echo out $r")
    expect(sorted(done.stdout.splitlines()) == ["out 0", "out 1", "out 2"], "--all-output shows the output of all ranks")
    done = run("-n", 2, "--all-output", "sh", "-c", "cat", text_in="a\nb\n")
    expect(done.stdout == "a\nb\n", "rank 0 gets standard input, the others an empty one")
    done = run("-n", 1, "printf", "%s|", "--", "-n", "[1,2]", "", "run", "--rank")
    expect(done.stdout == "--|-n|[1,2]||run|--rank|", "arguments are passed unchanged")
    # More than the capacity of a pipe.
    done = run("-n", 2, "sh", "-c", "head -c 3000000 /dev/zero; exec >&-; sleep 0.2")
    expect(done.returncode == 0 and len(done.stdout) == 3000000, "a long output is complete and does not block")


def check_failures():
    done = run("true")
    expect(done.returncode == 2 and "-n is required" in done.stderr, "the number of ranks is required")
    done = run("-n", 3, "sh", "-c",
               RANK + "echo begun $r; [ $r = 2 ] || exec sleep 50; yes | head -c 100000; echo bad; exit 3")
    expect(done.returncode == 3, "the exit status is passed on")
    expect(own_lines(done) == [f"cldist run: rank 2 (host {HOST}) exited with status 3"],
           "the failed rank is reported")
    shown = re.search(r"its last output:\n(.*?)bad\n", done.stderr, re.DOTALL)
    expect(shown and set(shown[1].splitlines()) == {"y"} and len(shown[1]) == 16384 - 4, "its last output is shown")
    expect(without_banner(done.stdout) in ("", "begun 0\n"), "only rank 0's output is shown")

    done = run("-n", 1, "sh", "-c", "echo alone; exit 4")
    expect(done.returncode == 4 and without_banner(done.stdout) == "alone\n", "rank 0's output is shown")
    expect(done.stderr == f"cldist run: rank 0 (host {HOST}) exited with status 4\n", "and not repeated: the report is one line",
           done.stderr)

    done = run("-n", 2, "sh", "-c", RANK + "echo going; [ $r = 0 ] || kill -SEGV $$; sleep 50")
    expect(done.returncode == 139, "a signal is passed on as 128 + its number")
    expect(f"cldist run: rank 1 (host {HOST}) was killed by SIGSEGV\nits last output:\ngoing\n" in done.stderr,
           "the killed rank is reported with its output")
    expect(len(done.stderr.splitlines()) == 3, "ranks that mpirun ended are not reported, and mpirun prints nothing", done.stderr)

    done = run("-n", 2, "/no/such/program")
    expect(done.returncode == 127, "status 127 for a missing program")
    expect("cldist run: cannot start /no/such/program: No such file or directory" in done.stderr,
           "the missing program is reported")
    done = run("-n", 1, FOLDER)
    expect(done.returncode == 126 and f"cannot start {FOLDER}: Permission denied" in done.stderr,
           "status 126 for a folder")
    script = FOLDER / "a script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = run("-n", 1, script)
    expect(done.returncode == 127 and f"cannot start {script}: its interpreter does not exist" in done.stderr,
           "a missing interpreter is reported, not a missing script")
    if MPI == "openmpi":
        done = run("-n", 1, CLDIST, "run", "-n", 1, "true")
        expect(done.returncode == 2 and "cldist run: it starts mpirun, so it cannot run under mpirun" in done.stderr,
               "one mpirun does not start another")
    done = run("-n", 1, "true", env=environment(PATH="/no/such/folder"))
    expect(done.returncode == 127 and "cannot start mpirun" in done.stderr, "a missing mpirun is reported")


def check_signals():
    for number, name in (signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT"):
        for file in FOLDER.iterdir():
            file.unlink()
        with subprocess.Popen(command("-n", 3, "sh", "-c",
                                      RANK + f"echo $$ >{FOLDER}/tmp$r; mv {FOLDER}/tmp$r {FOLDER}/pid$r; "
                                      "sleep 50; exit 0"),
                              env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            wait_for(lambda: len(list(FOLDER.glob("pid*"))) == 3, "all ranks to start")
            pids = [int(file.read_text()) for file in FOLDER.glob("pid*")]
            begin = time.monotonic()
            job.send_signal(number)
            _, err = job.communicate(timeout=SECONDS)
            took = time.monotonic() - begin
        print(name, job.returncode, f"{took:.1f} s", err)
        expect(job.returncode == 128 + number, f"status {128 + number} after {name}")
        expect(took < 10, f"the job ends soon after {name}")
        expect(not any(map(alive, pids)), f"no program remains after {name}")
        expect("cldist run:" not in err, f"no rank has failed after {name}")

    # SIGUSR1 arrives once in each rank, and ends nothing.
    program = """
import os, signal, sys, time
got = []
signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
open(sys.argv[1] + "/ready" + os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "")), "w").close()
end = time.monotonic() + 50
while not got and time.monotonic() < end:
    time.sleep(0.05)
time.sleep(0.5)
os.write(1, b"got %d\\n" % len(got))
"""
    with subprocess.Popen(command("-n", 2, "--all-output", sys.executable, "-c", program, FOLDER), env=environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as job:
        wait_for(lambda: len(list(FOLDER.glob("ready*"))) == 2, "all ranks to start")
        job.send_signal(signal.SIGUSR1)
        out, _ = job.communicate(timeout=SECONDS)
    expect(job.returncode == 0 and out.splitlines() == ["got 1", "got 1"], "each program gets SIGUSR1 once",
           job.returncode, out)


    # SIGINT interrupts each program once, and the programs' own exit statuses count.
    program = program.replace("SIGUSR1", "SIGINT")
    for file in FOLDER.glob("ready*"):
        file.unlink()
    with subprocess.Popen(command("-n", 2, "--all-output", sys.executable, "-c", program, FOLDER), env=environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        wait_for(lambda: len(list(FOLDER.glob("ready*"))) == 2, "all ranks to start")
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=SECONDS)
    lines = [line for line in out.splitlines() if not line.startswith("[mpiexec@")]
    # MPICH's mpirun then returns its own status.
    expect(job.returncode == (0 if MPI == "openmpi" else 128 + signal.SIGINT) and lines == ["got 1", "got 1"] and "Forwarding" not in err,
           "each program is interrupted once", job.returncode, out, err)
    if MPI != "openmpi":
        return
    # The same for Ctrl-C in a terminal, which also sends the signal to mpirun.
    for file in FOLDER.glob("ready*"):
        file.unlink()
    child, terminal = pty.fork()
    if child == 0:
        os.execve(CLDIST, command("-n", 2, sys.executable, "-c", program, FOLDER), environment())
    wait_for(lambda: len(list(FOLDER.glob("ready*"))) == 2, "all ranks to start")
    os.write(terminal, b"\x03")
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # end of the output
        pass
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    expect(status == 0 and b"got 1\r\n" in shown, "Ctrl-C interrupts the program once", status, shown)
    # The third SIGINT kills a program that ignores the signal.
    program = 'trap "" INT; echo ready; sleep 50 & wait; wait; sleep 50'
    with subprocess.Popen(command("-n", 1, "sh", "-c", program), env=environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as job:
        job.stdout.readline()
        begin = time.monotonic()
        for _ in range(3):
            job.send_signal(signal.SIGINT)
            time.sleep(0.1)  # pending signals of one kind are merged
        job.communicate(timeout=SECONDS)
    expect(job.returncode == 128 + signal.SIGINT and time.monotonic() - begin < 20, "the third SIGINT ends the job",
           job.returncode)


def check_terminals():
    """The program's standard output is a terminal only if that of `cldist run` is one."""
    program = "import os; os.write(1, b'%d%d' % (os.isatty(1), os.isatty(2)))"
    for ranks in 1, 2:
        done = run("-n", ranks, sys.executable, "-c", program)
        expect(done.stdout == "00", "a pipe is no terminal", done)
    with open(FOLDER / "output", "w+", encoding="utf-8") as file:
        subprocess.run(command("-n", 1, sys.executable, "-c", program), env=environment(), stdout=file, check=False,
                       timeout=SECONDS)
        file.seek(0)
        expect(file.read() == "00", "a file is no terminal")
    if MPI == "openmpi":
        ours, theirs = pty.openpty()
        subprocess.run(command("-n", 1, sys.executable, "-c", program), env=environment(), stdin=subprocess.DEVNULL,
                       stdout=theirs, check=False, timeout=SECONDS)
        expect(os.read(ours, 10).startswith(b"1"), "a terminal is one")
        os.close(theirs)
        os.close(ours)


def check_closed_output():
    """Like `cldist run ... | head`."""
    with subprocess.Popen(command("-n", 2, "yes"), env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as job:
        line = job.stdout.readline()
        job.stdout.close()
        err = job.stderr.read()
        job.wait(timeout=SECONDS)
    expect(line == "y\n" and job.returncode == 128 + signal.SIGPIPE and not err, "a reader that closes the pipe ends the job without messages",
           job.returncode, err)


def check_closed_descriptors():
    """Like `cldist run ... <&-`."""
    for closed, out in ("<&-", "hello\n"), (">&-", ""), ("<&- >&- 2>&-", ""):
        done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command("-n", 2, "echo", "hello")], env=environment(),
                              capture_output=True, text=True, check=False, timeout=SECONDS)
        expect(done.returncode == 0 and done.stdout == out and not done.stderr, f"it runs with {closed}", done)


def check_killed_mpirun():
    program = ["sh", "-c", f"echo $PPID >{FOLDER}/tmp; mv {FOLDER}/tmp {FOLDER}/wrapper; exec sleep 50"]
    (FOLDER / "wrapper").unlink(missing_ok=True)
    with subprocess.Popen(command("-n", 1, *program), env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as job:
        wait_for((FOLDER / "wrapper").exists, "the rank to start")
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        expect(len(children) == 1, "mpirun is its only child", children)
        os.kill(int(children[0]), signal.SIGKILL)
        _, err = job.communicate(timeout=SECONDS)
    expect(job.returncode == 128 + signal.SIGKILL and
           [line for line in err.splitlines() if line.startswith("cldist run: mpirun")] ==
           [line for line in err.splitlines() if re.fullmatch(r"cldist run: mpirun\S* was killed by SIGKILL", line)] != [],
           "a killed mpirun is reported", job.returncode, err)


def check_rank():
    """`cldist run --rank`: one rank, without mpirun."""
    wrapper = command("--rank", "--", "sh", "-c", "echo $$; exec sleep 50")
    with subprocess.Popen(wrapper, env=environment(), stdout=subprocess.PIPE, text=True) as rank:
        pid = int(rank.stdout.readline())
        rank.send_signal(signal.SIGKILL)
        rank.wait(timeout=SECONDS)
        wait_for(lambda: not alive(pid), "the program of a killed rank to die")
    # The signal goes only to this process. A shell sends it, because this script, the parent, takes
    # the place of mpirun.
    with subprocess.Popen(wrapper, env=environment(), stdout=subprocess.PIPE, text=True) as rank:
        pid = int(rank.stdout.readline())
        subprocess.run(["sh", "-c", f"kill -TERM {rank.pid}"], check=True)
        rank.wait(timeout=SECONDS)
        expect(rank.returncode == (-signal.SIGTERM if MPI == "openmpi" else 143) and not alive(pid),
               "it passes signals on")
    begin = time.monotonic()
    done = run("--rank", "--", "sh", "-c", "(echo left; exec sleep 8) 2>&- & sleep 0.3; exit 3",
               env=environment(PMI_RANK="7"))
    expect(done.returncode == 3 and time.monotonic() - begin < 6, "a child of the program does not delay the end")
    expect(f"rank 7 (host {HOST}) exited with status 3\nits last output:\nleft\n" in done.stderr,
           "its output is shown")


def variables(*arguments, **changes):
    done = run(*arguments, "env", env=environment(**changes))
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def check_environment():
    vendors = Path(CLDIST).parent / "vendors"
    found = variables("-n", 2, "--devices", "all:2")
    expect(Path(found["OCL_ICD_VENDORS"]) == vendors, "the platform's folder is found", found["OCL_ICD_VENDORS"])
    expect(found["OCL_ICD_VENDORS"].endswith("/"), "its name ends with a slash, as CUDA's loader requires", found["OCL_ICD_VENDORS"])
    drivers = list(vendors.glob("*.icd"))
    expect([file.name for file in drivers] == ["cldist-cluster.icd"], "it contains one driver", drivers)
    driver = Path(drivers[0].read_text().strip())
    expect(driver.is_file() and driver.name.startswith("libcldist-cluster.so"), "the driver is the cluster platform's", driver)
    expect(found["CLDIST_NATIVE_ICDS"] == "/etc/OpenCL/vendors", "the host's own drivers are passed on")
    expect(found["HWLOC_COMPONENTS"] == "-opencl", "hwloc does not load OpenCL")
    expect(found["CLDIST_DEVICES"] == "all:2", "--devices is passed on")
    cores = len(os.sched_getaffinity(0))
    threads = str(max(1, cores // 2))
    expect(found["POCL_MAX_PTHREAD_COUNT"] == threads and found["POCL_CPU_MAX_CU_COUNT"] == threads,
           "PoCL gets its share of the cores", threads)

    native = "/etc/OpenCL/vendors"
    found = variables("-n", cores + 1, OCL_ICD_FILENAMES="a.so:b.so", OCL_ICD_VENDORS=native, POCL_CPU_MAX_CU_COUNT="7")
    expect(found["CLDIST_NATIVE_ICDS"] == f"a.so:b.so:{native}", "the user's drivers are used", found)
    expect("OCL_ICD_FILENAMES" not in found, "OCL_ICD_FILENAMES is removed")
    expect(found["POCL_MAX_PTHREAD_COUNT"] == "1" and found["POCL_CPU_MAX_CU_COUNT"] == "7",
           "the user's number of threads is unchanged")
    expect(found["OMPI_MCA_mpi_yield_when_idle"] == "1", "more ranks than cores yield")
    expect(variables("-n", 1, CLDIST_NATIVE_ICDS=native + "/")["CLDIST_NATIVE_ICDS"] == native + "/",
           "the user's list is used")

    if MPI == "openmpi":
        options = ["--mpirun-option", "-x", "--mpirun-option", "FROM_MPIRUN=5"]
    else:
        options = ["--mpirun-option=-env", "--mpirun-option=FROM_MPIRUN", "--mpirun-option", "5"]
    expect(variables("-n", 2, *options).get("FROM_MPIRUN") == "5", "mpirun gets its options")


def masks(*arguments):
    program = "import os; os.write(1, (' '.join(map(str, sorted(os.sched_getaffinity(0)))) + '\\n').encode())"
    return sorted(run(*arguments, "--all-output", sys.executable, "-c", program).stdout.splitlines())


def check_binding():
    mine = sorted(os.sched_getaffinity(0))
    whole = " ".join(map(str, mine))
    expect(masks("-n", 2, "--no-bind") == [whole] * 2, "--no-bind leaves all cores")
    expect(masks("-n", len(mine) + 1) == [whole] * (len(mine) + 1), "more ranks than cores are not bound")
    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    if len(mine) < 2 or siblings.is_file() and siblings.read_text().strip() != "0":
        print("SKIP: binding of two ranks: needs two processors on separate cores")
        return
    # `cldist run` does not bind ranks if other programs use the cores. Each rank samples the load,
    # and even a short load counts, so the test is repeated.
    for _ in range(5):
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) - 1
        bound = [set(map(int, line.split())) for line in masks("-n", 2)]
        if set(mine) not in bound:
            break
    if running + 2 > len(mine) and bound == [set(mine)] * 2:
        print(f"SKIP: binding of two ranks: {running} other programs run on {len(mine)} cores")
        return
    expect(len(bound) == 2 and not bound[0] & bound[1] and sorted(bound[0] | bound[1]) == mine,
           "each rank has its own cores",
           bound)


def check_choices():
    """Invalid or unavailable choices are reported in one line, before anything is started."""
    broken = FOLDER / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "no.icd").write_text("libno-such-driver.so\n")
    empty = FOLDER / "empty"
    empty.mkdir(exist_ok=True)
    for what, options, changes, pattern in (
            ("an unknown type", ["--devices", "foo"], {},
             'CLDIST_DEVICES=foo: "foo" is invalid; expected auto, all, gpu, cpu or accelerator, .*'),
            ("missing devices", ["--devices", "accelerator"], {},
             r"CLDIST_DEVICES=accelerator selects no device; this host has: .+ \((CPU|GPU)\).*"),
            ("a count of 0", ["--devices", "all:0"], {}, "CLDIST_DEVICES=all:0 selects no device; this host has: .+"),
            ("a variable's wrong value", [], {"CLDIST_DEVICES": "gpus"}, 'CLDIST_DEVICES=gpus: "gpus" is invalid; expected .*'),
            ("a variable without a value", [], {"CLDIST_DEVICES": ""}, "CLDIST_DEVICES is set, but lists no devices; .*"),
            ("a misspelt variable", [], {"CLDIST_DEVICE": "gpu"},
             r"CLDIST_DEVICE is not a setting; did you mean CLDIST_DEVICES\?"),
            ("an empty list of drivers", [], {"CLDIST_NATIVE_ICDS": ""}, "CLDIST_NATIVE_ICDS is set, but lists no drivers; .*"),
            ("no driver", [], {"CLDIST_NATIVE_ICDS": str(empty)},
             f"no OpenCL driver in {empty} has a device; install a driver: .*"),
            ("a driver that does not load", [], {"CLDIST_NATIVE_ICDS": str(broken)},
             f"no OpenCL driver in {broken} can be opened: libno-such-driver.so: .*cannot open shared object.*")):
        for hosts in ([], ["--hosts", "localhost:2"]) if HAS_SSH else ([],):
            done = run(*hosts, "-n", 2, *options, "sh", "-c", "echo started", env=environment(**changes))
            said = own_lines(done)
            expect(done.returncode == 2 and len(said) == 1 and "started" not in done.stdout, f"{what}: status 2 and one line",
                   hosts, done.returncode, done.stderr)
            expect(said and re.fullmatch(rf"cldist run: (rank \d \(host \S+\): )?{pattern}", said[0]), f"{what}: is reported",
                   pattern, *said)
            if not hosts:
                expect(len(done.stderr.splitlines()) == 1, f"{what}: nothing else is printed", done.stderr)


    done = run("-n", 2, "--stage", f"{FOLDER}:/no/such/folder", "sh", "-c", "echo started")
    expect(done.returncode == 2 and "started" not in done.stdout and
           done.stderr == f"cldist run: rank 0 (host {HOST}): --stage /no/such/folder: no such file or folder\n",
           "a missing folder to stage is an error", done)
    if os.geteuid() == 0 and MPI == "openmpi":
        done = run("-n", 2, "sh", "-c", "echo started", env={name: value for name, value in environment().items()
                                                             if "ALLOW_RUN_AS_ROOT" not in name})
        expect(done.returncode == 2 and not done.stdout and len(done.stderr.splitlines()) == 1 and
               "set both" in done.stderr, "root gets advice", done)
    for option, warning in (("central", "--host central is now --host-mode central"),
                            ("localhost:2", "--host localhost:2 is now --hosts localhost:2")) if HAS_SSH else ():
        done = run("--host", option, "-n", 2, "echo", "started")
        expect(done.returncode == 0 and done.stdout == "started\n" and f"cldist: {warning}\n" in done.stderr,
               "the former option works with a warning", done)


def listeners(pid):
    """The addresses and ports at which a process listens."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(file))
        except OSError:
            pass
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            address, port = fields[1].split(":")
            yield socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)


def check_strangers():
    """Connections without greeting do not delay the ranks' answers."""
    if not HAS_SSH:
        print("SKIP: connections to the hub: ssh is not installed")
        return
    for name in "asked", "go":
        (FOLDER / name).unlink(missing_ok=True)
    # Rank 1 gets rank 0's answers to these queries.
    program = """
import os, sys, time
open(sys.argv[1] + "/asked", "w").close()
while not os.path.exists(sys.argv[1] + "/go"): time.sleep(0.02)
"""
    with subprocess.Popen(command("--hosts", "localhost:2", sys.executable, "-c", program, FOLDER), env=environment(),
                          stdin=subprocess.DEVNULL, text=True) as job:
        wait_for((FOLDER / "asked").exists, "the ranks to start")
        places = list(listeners(job.pid))
        expect(places and all(address == "127.0.0.1" for address, _ in places), "it listens only at the ranks' address", places)
        strangers = [socket.create_connection(places[0]) for _ in range(300)]
        strangers[-1].sendall(b"x" * 40)  # not a greeting
        begin = time.monotonic()
        (FOLDER / "go").touch()
        job.wait(timeout=SECONDS)
        took = time.monotonic() - begin
        for stranger in strangers:
            stranger.close()
    expect(job.returncode == 0 and took < 8, "strangers do not delay the job", job.returncode, took)


def devices(*arguments, **changes):
    return subprocess.run([CLDIST, "devices", *map(str, arguments)], env=environment(**changes), text=True,
                          capture_output=True, check=False, timeout=SECONDS)


def check_devices():
    done = devices()
    expect(done.returncode == 0 and re.fullmatch(rf"rank 0 \(host {HOST}\): .+ \((CPU|GPU)\)\n", done.stdout),
           "the devices of one process are listed", done)
    done = devices("-n", 2, "--devices", "cpu", POCL_DEVICES="pthread pthread")
    lines = done.stdout.splitlines()
    expect(done.returncode == 0 and [line[:6] for line in lines] == ["rank 0", "rank 1"]
           and all(re.search(r": 2 x .+ \(CPU\)$", line) for line in lines),
           "the devices of each process are listed, equal ones once", done)
    done = devices(OCL_ICD_FILENAMES="libno-such-driver.so")
    expect(done.returncode == 0 and re.search(r"\((CPU|GPU)\); drivers that cannot be opened: libno-such-driver.so: \w", done.stdout),
           "a driver that does not load is reported next to one that does", done)
    done = devices("-n", 2, "--devices", "accelerator")
    expect(done.returncode == 2 and "this host has: " in done.stderr and not done.stdout,
           "missing devices are an error", done)


def without_ssh():
    """A PATH without ssh and rsh."""
    folder = FOLDER / "no-ssh"
    folder.mkdir(exist_ok=True)
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*"):
            if program.name not in ("ssh", "rsh") and not os.path.lexists(folder / program.name):
                (folder / program.name).symlink_to(program)
    return str(folder)


def check_hosts():
    done = run("-n", 2, "--all-output", "echo", "here", env=environment(PATH=without_ssh()))
    expect(done.returncode == 0 and done.stdout == "here\n" * 2, "ranks on this host need no ssh", done)
    if not HAS_SSH:
        print("SKIP: --hosts and --hostfile: ssh is not installed")
        return
    hostfile = FOLDER / "hostfile"
    hostfile.write_text("localhost slots=2\n" if MPI == "openmpi" else "localhost:2\n")
    for hosts in ["--hostfile", hostfile], ["--hosts", "localhost:2"]:
        for ranks in [], ["-n", 2]:
            done = run(*hosts, *ranks, "--all-output", "echo", "here")
            expect(done.returncode == 0 and done.stdout == "here\n" * 2, f"two ranks for {hosts} and {ranks}")
    nodes = FOLDER / "nodes"
    nodes.write_text("localhost\n" * 3)
    done = run("--all-output", "echo", "here", env=environment(PBS_JOBID="7", PBS_NODEFILE=str(nodes)))
    expect(done.returncode == 0 and done.stdout == "here\n" * 3, "one rank for each line of PBS's list of hosts")


def check_simulation():
    done = run("--simulate", "5:3", "sh", "-c", RANK + "echo $CLDIST_SIMULATE ${r:-alone}; exit 3")
    expect(done.returncode == 3 and done.stdout == "5:3 alone\n", "a simulated process runs alone", done)
    done = run("--simulate", "5", "/no/such/program")
    expect(done.returncode == 127 and "cannot start /no/such/program" in done.stderr, "a missing program is reported", done)
    done = run("--simulate", "5", "sh", "-c", "kill -SEGV $$")
    expect(done.returncode == 139 and "the program was killed by SIGSEGV" in done.stderr, "the signal is reported", done)
    done = run("--simulate", "5:3", "--host-mode", "central", "true")
    expect(done.returncode == 2 and "5:3: with --host-mode central, only rank 0 can be simulated" in done.stderr, "a simulated central host is rank 0", done)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for check in check_output, check_failures, check_signals, check_terminals, check_closed_output, check_closed_descriptors, \
            check_killed_mpirun, check_rank, check_environment, check_binding, check_hosts, check_choices, check_strangers, check_devices, check_simulation:
        check()
    return bool(complaints)


sys.exit(main())
