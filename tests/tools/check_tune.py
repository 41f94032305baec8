#!/usr/bin/env python3
"""Runs `cldist tune` and checks that its profile is used, explained, plotted and, if it does not fit, refused.

    check_tune.py FOLDER RANKS CLDIST PROGRAM [ARGUMENT...] -- [MPIRUN ARGUMENT...]

RANKS is 0 for a run without mpirun. PROGRAM uses the library in one process.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

FILE_ROUTES = ["file to device", "device to file"]


def run(command, folder, **environment):
    settings = {name: value for name, value in os.environ.items() if not name.startswith("CLDIST_") or name.startswith("CLDIST_TEST_")}
    settings |= {"XDG_CONFIG_HOME": str(folder / "config"), "TMPDIR": str(folder / "tmp")} | environment
    return subprocess.run(command, env=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=100)


def check_measuring(cldist, mpirun, folder, routes):
    done = run([*mpirun, cldist, "tune", "--seconds", "4", "--force"], folder)
    print(done.stdout, done.stderr, sep="\n")
    if done.returncode != 0:
        yield f"tune ended with {done.returncode}"
    for route in routes:
        if f"\n{route} (" not in f"\n{done.stdout}":
            yield f"no table of {route!r}"
        if f"cldist tune: {route}, up to" not in done.stderr:
            yield f"does not say that {route!r} is measured"
    if not mpirun and "mpirun -n 2 cldist tune" not in done.stdout:
        yield "does not say how messages are measured"
    if list((folder / "tmp").glob("cldist*")):
        yield "leaves files behind"


def check_explaining(cldist, folder, profile, routes):
    done = run([cldist, "tune", "--explain", "64k", "4M"], folder)
    print(done.stdout)
    if done.returncode != 0 or str(profile) not in done.stdout:
        yield f"explain ended with {done.returncode}, says {done.stderr!r}"
    for route in [*FILE_ROUTES, "device to device, same host", "device to device, other host"]:
        table = re.search(rf"^{route}(.*)\n.*\n +(64 KiB  .+)\n +(4 MiB  .+)$", done.stdout, re.MULTILINE)
        if not table:
            yield f"does not explain {route!r}"
        elif (" (measured " in table[1]) != (route in routes):
            yield f"{route!r} is wrongly said to be measured or not"
        elif route in routes and not all(re.search(r"[um]s +\d+\.\d+  \S", line) for line in (table[2], table[3])):
            yield f"{route!r} is explained without time, bandwidth and runner-up"
    if "\nmessages by kernels: " not in done.stdout:
        yield "does not tell whether kernels move messages"
    if not re.search(r"^ +4 MiB +pairwise +parts +parts", done.stdout, re.MULTILINE):
        yield "does not tell what an all-reduce does"
    every_size = run([cldist, "tune", "--explain", "--profile", str(profile)], folder).stdout
    if " 1 KiB " not in every_size or " 256 MiB " not in every_size:
        yield "does not explain from 1 KiB to 256 MiB"


def check_drawing(cldist, folder):
    picture = folder / "picture.png"
    done = run([cldist, "tune", "--plot", str(picture)], folder)
    if "needs matplotlib" in done.stderr and done.returncode == 1:
        print("no matplotlib: not drawn")
    elif done.returncode != 0 or not picture.read_bytes().startswith(b"\x89PNG"):
        yield f"no picture: status {done.returncode}, says {done.stdout + done.stderr!r}"
    done = run([cldist, "tune", "--plot", str(folder / "no" / "picture.png")], folder)
    if done.returncode != 1 or done.stderr.count("\n") != 1:
        yield f"a picture that can't be written: status {done.returncode}, says {done.stderr!r}"


def check_explaining_in_a_job(cldist, mpirun, folder):
    done = run([*mpirun, cldist, "tune", "--explain", "64k"], folder)
    if done.returncode != 0 or done.stdout.count("device to device, same host") != 1:
        yield f"explains {done.stdout.count('device to device, same host')} times in a job of two processes, not once"


def check_full_disk(cldist, folder):
    """A write error is reported with path and cause before any measurement. A size limit simulates a full disk."""
    profile = folder / "limited.toml"
    for limit, what in ((1 << 20, rf"cannot write a file of 64 MiB in {folder / 'tmp'}: pwrite: File too large"),
                        (1 << 10, rf"cannot write {profile}: File too large")):
        done = subprocess.run([cldist, "tune", "--force", "--seconds", "4", "--output", str(profile), "--directory", str(folder / "tmp")],
                              env=dict(os.environ, TMPDIR="/no/such/folder"), text=True, capture_output=True, check=False,
                              timeout=100, restore_signals=False,
                              preexec_fn=lambda size=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        said = done.stderr.splitlines()
        if done.returncode != 1 or len(said) != 1 or not re.search(what, said[0]):
            yield f"with a limit of {limit} bytes: status {done.returncode}, says {done.stderr!r}, expected {what!r}"


def check_full_error(cldist, folder):
    """If progress can't be printed, the measurement continues."""
    profile = folder / "unseen.toml"
    with open("/dev/full", "w", encoding="utf-8") as full:
        status = subprocess.run([cldist, "tune", "--force", "--seconds", "1", "--output", str(profile), "--directory", str(folder / "tmp")],
                                stdout=subprocess.DEVNULL, stderr=full, check=False, timeout=100).returncode
    if status != 0 or not profile.exists():
        yield f"with a full standard error: status {status}, profile written: {profile.exists()}"


def check_load(cldist, folder):
    """On a busy machine, `cldist tune` warns, and reports the routes that it does not save."""
    profile = folder / "loaded.toml"
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        done = run([cldist, "tune", "--seconds", "3", "--output", str(profile), "--directory", str(folder / "tmp")], folder)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print(done.stderr)
    if not re.search(r"^cldist tune: warning: other programs use \d+\.\d of the \d+ cores of ", done.stderr, re.MULTILINE):
        yield f"does not warn of a loaded machine, says {done.stderr!r}"
    if "not measured, because the time was over" in done.stderr:
        return
    left_out = done.stderr.count("; this route is not saved")
    if (done.returncode != 0) != (left_out == 2) or ("nothing is saved" in done.stderr) != (left_out == 2) or profile.exists() != (left_out < 2):
        yield f"{left_out} of 2 routes scatter: status {done.returncode}, profile written: {profile.exists()}, says {done.stderr!r}"


def check_no_matplotlib(cldist, folder):
    """An error message names the Python interpreter that lacks matplotlib."""
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    python.chmod(0o755)
    done = run([cldist, "tune", "--plot", str(folder / "picture.png")], folder, PATH=f"{python.parent}:{os.environ['PATH']}")
    if done.returncode != 1 or not re.search(r"which /\S+ does not have: ", done.stderr):
        yield f"without matplotlib: status {done.returncode}, says {done.stderr!r}"


def check_use(cldist, program, folder, profile):
    """A program uses the profile, or reports in one line why it does not, and works in both cases."""
    def complaints_of(what, expected, **environment):
        done = run(program, folder, **environment)
        lines = [line for line in done.stderr.splitlines() if "profile" in line]
        if done.returncode != 0 or len(lines) != 1 or not re.search(expected, lines[0]):
            yield f"{what}: the program ended with {done.returncode}, says {lines}"

    yield from complaints_of("a folder", "is not used: cannot be read: Is a directory", CLDIST_PROFILE=str(folder))
    yield from complaints_of("a good profile", re.escape(str(profile)), CLDIST_LOG="info")
    text = profile.read_text(encoding="utf-8")
    for what, changed, expected in (
            ("a damaged profile", text[:len(text) // 2] + "\n[", "is not used: line [0-9]+: "),
            ("a foreign profile", re.sub('\nhost = ".*"', '\nhost = "elsewhere"', text), 'is not used: .*"elsewhere"')):
        profile.write_text(changed, encoding="utf-8")
        yield from complaints_of(what, expected)
        explained = run([cldist, "tune", "--explain", "1M"], folder)
        if explained.returncode != 0 or "is not valid here" not in explained.stdout or explained.stderr:
            yield f"{what}: explain says {explained.stdout!r} {explained.stderr!r}"
    profile.unlink()
    explained = run([cldist, "tune", "--explain", "1M"], folder)
    if explained.returncode != 0 or "no profile is in use" not in explained.stdout:
        yield f"without a profile: status {explained.returncode}, says {explained.stdout!r}"
    if run([cldist, "tune", "--plot", "x.png"], folder).returncode != 1:
        yield "draws without a profile"


def main():
    folder, ranks, cldist, *rest = sys.argv[1:]
    split = rest.index("--")
    program, mpirun = rest[:split], rest[split + 1:]
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    routes = FILE_ROUTES + (["device to device, same host"] if int(ranks) > 1 else [])
    complaints = list(check_measuring(cldist, mpirun, folder, routes))
    profiles = list((folder / "config" / "cldist").glob("*.toml"))
    if len(profiles) == 1:
        complaints += check_explaining(cldist, folder, profiles[0], routes)
        complaints += check_drawing(cldist, folder)
        complaints += check_no_matplotlib(cldist, folder)
        complaints += check_full_disk(cldist, folder)
        complaints += check_full_error(cldist, folder)
        complaints += check_load(cldist, folder)
        if mpirun:
            complaints += check_explaining_in_a_job(cldist, mpirun, folder)
        complaints += check_use(cldist, program, folder, profiles[0])
    else:
        complaints.append(f"these profiles were written: {profiles}")
    for complaint in complaints:
        print("FAILED:", complaint)
    return 1 if complaints else 0


sys.exit(main())
