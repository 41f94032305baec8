#!/usr/bin/env python3
"""Checks the output of `cldist` for right and wrong usage.

    check_usage.py CLDIST VERSION openmpi|mpich
"""

import os
import pty
import subprocess
import sys

VERSION, MPI = sys.argv[2], {"openmpi": "Open MPI", "mpich": "MPICH"}[sys.argv[3]]

CASES = [  # arguments, exit status, expected text
    (["--help"], 0, "doctor"),
    (["doctor", "--help"], 0, "PROBLEM"),
    (["trace", "--help"], 0, "under kernels"),
    ([], 2, "subcommand is required"),
    (["frobnicate"], 2, 'unknown command "frobnicate"; the commands are doctor, trace, tune, run, devices, explain, config'),
    (["doctr"], 2, 'cldist: unknown command "doctr"; did you mean doctor?'),
    (["--version"], 0, f"cldist {VERSION}, built with {MPI} "),
    (["--version"], 0, ", OpenCL "),
    (["--version"], 0, "HDF5"),
    (["--help"], 0, "Usage: cldist [OPTIONS] COMMAND\n"),
    (["run", "--help"], 0, "Usage: cldist run [OPTIONS] PROGRAM [ARGUMENTS]\n"),
    (["trace", "--help"], 0, "Usage: cldist trace [OPTIONS] FOLDER\n"),
    (["tune", "--help"], 0, "Usage: cldist tune [OPTIONS] [SIZE...]\n"),
    (["devices", "--help"], 0, "Usage: cldist devices [OPTIONS]\n"),
    (["devices", "extra"], 2, "extra"),
    (["explain", "--help"], 0, "Usage: cldist explain [OPTIONS] PROGRAM [BUILD OPTIONS]\n"),
    (["explain"], 2, "PROGRAM is required"),
    (["explain", "/no/such/program.cl"], 1, "cannot read /no/such/program.cl"),
    (["config", "--help"], 0, "Usage: cldist config [OPTIONS]\n"),
    (["config", "extra"], 2, "extra"),
    (["doctor", "--frobnicate"], 2, "--frobnicate"),
    (["doctor", "extra"], 2, "extra"),
    (["trace"], 2, "FOLDER is required"),
    (["trace", "/no/such/folder"], 1, "/no/such/folder"),
    (["tune", "--help"], 0, "Received bytes are compared"),
    (["tune", "--seconds", "0"], 2, "--seconds"),
    (["tune", "--device", "fpga"], 2, "neither cpu, gpu nor a number"),
    (["tune", "64k"], 2, "requires --explain"),
    (["tune", "--explain", "64q"], 2, "not a size"),
    (["tune", "--explain", "--plot", "x.png"], 2, "excludes"),
    (["tune", "--plot"], 2, "--plot"),
    (["tune", "--profile", "x.toml"], 2, "cldist tune: --profile needs --explain or --plot"),
    (["tune", "--explain", "--profile", "/no/such/file"], 1, "/no/such/file: cannot be read"),
    (["tune", "--device", "999"], 1, "this host has no OpenCL device 999"),
    (["tune", "--directory", "/no/such/folder"], 1, "cannot create a file in /no/such/folder"),
    (["tune", "--output", "/proc/no/profile.toml"], 1, "cannot write /proc/no/profile.toml: /proc/no is not a folder; create it, "),
    (["run", "--help"], 0, "Exit status: that of a rank that failed"),
    (["run"], 2, "PROGRAM is required"),
    (["run", "-n", "2", "--"], 2, "PROGRAM is required"),
    (["run", "-n", "1", ""], 2, "PROGRAM is required"),
    (["run", "--devices", "", "-n", "1", "true"], 2, "--devices: the value is empty"),
    (["run", "--hosts", "", "-n", "1", "true"], 2, "--hosts: the value is empty"),
    (["run", "--host", "Central", "-n", "2", "true"], 2, "cldist run: --host Central: did you mean --host-mode central?"),
    (["run", "--host-mode", "Central", "-n", "2", "true"], 2, "Central not in {auto,replicated,central}"),
    (["run", "--hosts", "a", "--host", "central", "true"], 2, "excludes"),
    (["devices", "--hostfile", "/no/such/file"], 2, "/no/such/file"),
    (["run", "-n", "0", "program"], 2, "-n"),
    (["run", "--simulate", "4:4", "program"], 2, '"4:4" is not PROCESSES[:RANK[:PER_HOST]]'),
    (["run", "--simulate", "4", "-n", "2", "program"], 2, "excludes"),
    (["run", "--simulate", "4"], 2, "PROGRAM is required"),
    (["run", "-n", "two", "program"], 2, "-n"),
    (["run", "--frobnicate", "program"], 2, "cldist run: unknown option --frobnicate\n"),
    (["run", "--np", "2", "program"], 2, "cldist run: unknown option --np; did you mean -n?\n"),
    (["run", "-np", "2", "program"], 2, "cldist run: unknown option -np; did you mean -n?\n"),
    (["run", "--devices", "cpu", "-np", "2", "program"], 2, "unknown option -np; did you mean -n?\n"),
    (["run", "-n", "2", "--device", "gpu", "program", "--x"], 2, "unknown option --device; did you mean --devices?"),
    (["run", "-n", "two", "program", "--frobnicate"], 2, "-n: "),
    (["tune", "--second", "3"], 2, "cldist tune: unknown option --second; did you mean --seconds?\n"),
    (["tune", "--second=3"], 2, "unknown option --second; did you mean --seconds?\n"),
    (["tune", "--output", "/"], 1, "cldist tune: cannot write /: it is a folder; expected the name of a file\n"),
    (["trace", "/proc/self"], 1, "contains no cldist-trace-<rank>.json"),
]


def check_settings(program):
    """`cldist config` lists every setting with its value and its source."""
    def lines_of(status, **changes):
        env = {name: value for name, value in os.environ.items() if not name.startswith("CLDIST_")} | changes
        run = subprocess.run([program, "config"], env=env, text=True, capture_output=True, check=False, timeout=60)
        if run.returncode != status:
            yield f"FAILED: cldist config ended with {run.returncode}, not {status}"
        yield from (" ".join(line.split()) for line in run.stdout.splitlines())

    usual = list(lines_of(0))
    for line in "CLDIST_PATH=auto default", "CLDIST_STAGING_KEEP=64M default", "CLDIST_STALL_SECONDS=30 default":
        if line not in usual:
            yield f"config does not say {line!r} but {usual}"
    changed = list(lines_of(1, CLDIST_PATH="mapped", CLDIST_DEPTH="many", CLDIST_LOGS="debug", CLDIST_FOO="1"))
    for line in ("CLDIST_PATH=mapped environment", "CLDIST_DEPTH=0 default; the environment's value is invalid",
                 "PROBLEM: CLDIST_LOGS is not a setting; did you mean CLDIST_LOG?"):
        if line not in changed:
            yield f"config does not say {line!r} but {changed}"
    if any("CLDIST_FOO" in line for line in changed):
        yield f"config takes CLDIST_FOO for a misspelt setting: {changed}"
    renamed = list(lines_of(1, CLDIST_PATH="direct", CLDIST_PINNED_MAX="64k"))
    for line in "CLDIST_PATH=peer-to-peer environment", "CLDIST_STAGED_MAX=64k environment":
        if line not in renamed:
            yield f"config does not say {line!r} but {renamed}"
    for name, value, word in (("DEVICES", "gpus", "gpus"), ("HOST_WRAP", "random,clock", "clock"),
                              ("HOST_WRAP", "off,random", "off")):
        refused = "\n".join(lines_of(1, **{f"CLDIST_{name}": value}))
        for text in (f"CLDIST_{name}={{}} default; the environment's value is invalid".format(
                         "auto" if name == "DEVICES" else "random,time,identity,output,files"),
                     f'PROBLEM: CLDIST_{name}={value}: "{word}" is invalid; expected '):
            if text not in refused:
                yield f"config does not say {text!r} but {refused}"


def check_colours(program):
    """Colours are used only in terminals."""
    def output_of(**changes):
        ours, theirs = pty.openpty()
        with subprocess.Popen([program, "config"], env=dict(os.environ, CLDIST_PATH="mapped", **changes), stdout=theirs) as run:
            os.close(theirs)
            text = b""
            try:
                while part := os.read(ours, 65536):
                    text += part
            except OSError:  # end of the output
                pass
            run.wait(timeout=60)
        os.close(ours)
        return text

    if b"\033[" not in output_of(TERM="xterm", NO_COLOR=""):
        yield "a terminal gets no colours"
    if b"\033[" in output_of(TERM="dumb", NO_COLOR="") + output_of(TERM="xterm", NO_COLOR="1"):
        yield "colours are shown where they are not wanted"


def check_full_output(program):
    """A command that can't write to standard output reports that and fails."""
    for arguments, status in (["config"], 1), (["--version"], 1), (["tune", "--explain"], 1), (["tune", "--help"], 1):
        with open("/dev/full", "w", encoding="utf-8") as full:
            run = subprocess.run([program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        if run.returncode != status or "No space left on device" not in run.stderr:
            yield f"cldist {' '.join(arguments)} >/dev/full: status {run.returncode}: {run.stderr}"


def main():
    program = sys.argv[1]
    failed = False
    for complaint in [*check_settings(program), *check_colours(program), *check_full_output(program)]:
        print("FAILED:", complaint)
        failed = True
    for arguments, status, text in CASES:
        run = subprocess.run([program, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                             timeout=60)
        if run.returncode != status or text not in run.stdout:
            print(f"FAILED: cldist {' '.join(arguments)}: status {run.returncode}, expected {status} and {text!r} in:",
                  run.stdout, sep="\n")
            failed = True
    return failed


sys.exit(main())
