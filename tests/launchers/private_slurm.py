"""A Slurm cluster of two hosts for a test, with its own configuration, key, ports and daemons.

The hosts n1 and n2 are network namespaces on this machine, and the cluster's processes have their own PID namespace.
They end with the test.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 60
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "unshare", "nsenter", "ip")
ADDRESSES = {"n1": "10.99.0.1", "n2": "10.99.0.2"}
CONFIGURATION = """
ClusterName=test
SlurmctldHost=n1({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
TmpFS={folder}/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MailProg=/bin/true
KillWait=5
CompleteWait=0
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=10
"""


def skip(reason):
    print("SKIP:", reason)
    sys.exit(77)


def enter():
    """Runs the rest of the script in new namespaces, as the host n1."""
    if os.environ.get("PRIVATE_SLURM") is not None and os.getppid() == 1:
        return
    if os.geteuid() != 0:
        skip("a private Slurm needs root")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            skip(f"{program} is not installed (slurm-wlm, munge, util-linux, iproute2)")
    separate = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net", "--uts"]
    if subprocess.run([*separate, "ip", "link", "add", "v1", "type", "veth", "peer", "name", "v2"], check=False,
                      capture_output=True).returncode != 0:
        skip("this system does not allow network namespaces")
    # The first process of a PID namespace must reap all orphans.
    wait = """
import os, sys
child = os.fork()
if child == 0: os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
while True:
    ended, status = os.wait()
    if ended == child: sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""
    os.environ["PRIVATE_SLURM"] = "1"
    os.execvp("unshare", [*separate, sys.executable, "-c", wait, *sys.argv])


@contextlib.contextmanager
def cluster():
    """Yields the folder of the cluster's files, and sets SLURM_CONF."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)  # munged requires it
    daemons = []

    def shell(*command):
        subprocess.run(command, check=True)

    def daemon(*command):
        with open(folder / f"{len(daemons)}.out", "wb") as out:
            daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))
        return daemons[-1].pid

    try:
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{at} {name}\n" for name, at in ADDRESSES.items()))
        shell("mount", "--bind", folder / "hosts", "/etc/hosts")
        shell("hostname", "n1")
        shell("ip", "link", "add", "v1", "type", "veth", "peer", "name", "v2")
        other = daemon("unshare", "--net", "--uts", "sh", "-c", "hostname n2; exec sleep 1000")
        here = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{other}/ns/net") != here, "the second host")
        on_other = ["nsenter", "--target", str(other), "--net", "--uts"]
        shell("ip", "link", "set", "v2", "netns", str(other))
        for on, device, address in ([], "v1", ADDRESSES["n1"]), (on_other, "v2", ADDRESSES["n2"]):
            shell(*on, "ip", "link", "set", "lo", "up")
            shell(*on, "ip", "address", "add", address + "/24", "dev", device)
            shell(*on, "ip", "link", "set", device, "up")
        key = folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        nodes = "\n".join(f"NodeName={name} NodeAddr={at} CPUs=4" for name, at in ADDRESSES.items())
        (folder / "slurm.conf").write_text(CONFIGURATION.format(address=ADDRESSES["n1"], folder=folder, nodes=nodes))
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        for name in "state", *ADDRESSES:
            (folder / name).mkdir()
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        daemon("munged", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={key}", "--num-threads=2",
               *(f"--{what}-file={folder}/munge.{what}" for what in ("pid", "log", "seed")))
        wait_for((folder / "munge.socket").exists, "munged")
        daemon("slurmctld", "-D")
        daemon("slurmd", "-D")
        daemon(*on_other, "slurmd", "-D")
        wait_for(lambda: output("sinfo", "-h", "-o", "%T %D") == "idle 2\n", "both hosts to be idle")
        yield folder
    except TimeoutError as error:
        print("FAILED: no sign of", error)
        for file in *folder.glob("*.log"), *folder.glob("*.out"):
            print(f"---- {file.name}", file.read_text(errors="replace")[-3000:], sep="\n")
        raise
    finally:
        for each in reversed(daemons):
            each.terminate()
        for each in daemons:
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
        shell("umount", "/etc/hosts")
        shutil.rmtree(folder, ignore_errors=True)


def output(*command):
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=SECONDS).stdout


def wait_for(condition, what):
    until = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.1)


def run(*command):
    """Runs a command. Returns its exit status (None: it did not end in time), standard output and standard error."""
    command = list(map(str, command))
    begin = time.monotonic()
    with subprocess.Popen(command, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as job:
        status = None
        try:
            out, err = job.communicate(timeout=SECONDS)
            status = job.returncode
        except subprocess.TimeoutExpired:
            subprocess.run(["scancel", "--user=root", "--signal=KILL"], check=False, timeout=SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            out, err = job.communicate(timeout=SECONDS)
    print("$", shlex.join(command), f"-> {status}, {time.monotonic() - begin:.1f} s\n" + out[-3000:] + err[-4000:], flush=True)
    return status, out, err
