#!/usr/bin/env python3
"""Checks the recipes of packaging/ without the tools that they are for.

Usage: check_recipes.py SOURCE_FOLDER [--print-last-run]

Containerfile   its instructions, stages and arguments; the sources of COPY; its commands, with shellcheck
cldist.def      its sections and commands; it installs the packages of Containerfile
package.py      its syntax, version, Meson options and lists of dependencies
cldist.wrap     its version and its dependencies

If apt-get knows the packages of Debian, those that the recipes install must exist. --print-last-run prints the commands of
the last stage of Containerfile, for check_packages.sh.
"""

import ast
import configparser
import pathlib
import re
import shutil
import subprocess
import sys

INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"}
SECTIONS = {"environment", "files", "help", "labels", "post", "runscript", "test"}


def instructions_of(text):
    """[(instruction, arguments)] of a Containerfile."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def installed_by(commands):
    """The packages and files that the commands pass to `apt-get install`."""
    found = re.search(r"apt-get install ((?:[^&;|\n\\]|\\\n)*)", commands)
    return sorted(word for word in found[1].replace("\\\n", " ").split() if not word.startswith("-")) if found else []


def check_commands(where, commands):
    if "apt-get install" in commands and not re.search(r"apt-get install -y --no-install-recommends", commands):
        yield f"{where}: apt-get install asks questions, or installs recommended packages"
    if shutil.which("shellcheck") is None:
        print(f"SKIP: the commands of {where}: shellcheck is not installed")
        return
    done = subprocess.run(["shellcheck", "--shell=sh", "-"], input=commands, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        yield f"{where}: {done.stdout}"


def check_names(where, packages):
    if shutil.which("apt-cache") is None:
        return
    names = [name for name in packages if "/" not in name]
    known = subprocess.run(["apt-cache", "pkgnames"], text=True, capture_output=True, check=False).stdout.split()
    if "libc6" not in known:
        print(f"SKIP: the packages of {where}: apt-get knows no packages")
    elif set(names) - set(known):
        yield f"{where}: there are no packages {sorted(set(names) - set(known))}"


def check_containerfile(root):
    where = "packaging/Containerfile"
    instructions = instructions_of((root / where).read_text(encoding="utf-8"))
    stages, arguments, user = [], set(), None
    for instruction, rest in instructions:
        if instruction not in INSTRUCTIONS:
            yield f"{where}: {instruction} is no instruction"
        for name in re.findall(r"\$\{?(\w+)", rest) if instruction != "RUN" else []:
            if name not in arguments:
                yield f"{where}: {instruction} uses ${name}, which no ARG defines"
        if instruction == "ARG":
            arguments.add(rest.split("=")[0])
        elif instruction == "FROM":
            stages.append(rest.split(" AS ")[1] if " AS " in rest else "")
        elif instruction == "USER":
            user = rest
        elif instruction == "COPY":
            stage = re.match(r"--from=(\w+)", rest)
            if stage and stage[1] not in stages[:-1]:
                yield f"{where}: COPY from {stage[1]}, which is no earlier stage"
            if not stage and not (root / rest.split()[0]).exists():
                yield f"{where}: COPY {rest.split()[0]}, which is not there"
        elif instruction == "RUN":
            yield from check_commands(where, rest)
            yield from check_names(where, installed_by(rest))
    if len(stages) != 2 or user in (None, "root"):
        yield f"{where}: expected two stages, and an ordinary user; got stages {stages} and user {user}"


def last_run(root):
    return [rest for name, rest in instructions_of((root / "packaging/Containerfile").read_text()) if name == "RUN"][-1]


def check_apptainer(root):
    where = "packaging/cldist.def"
    header, *parts = re.split(r"^%(\w+)\n", (root / where).read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2]))
    if not re.search(r"^Bootstrap: \w+\nFrom: \S+$", header, re.MULTILINE):
        yield f"{where}: the header lacks Bootstrap or From"
    if set(sections) - SECTIONS:
        yield f"{where}: {sorted(set(sections) - SECTIONS)} are no sections"
    yield from check_commands(where, sections["post"])
    names = [pathlib.Path(name).name for name in installed_by(sections["post"])]
    if names != [pathlib.Path(name).name for name in installed_by(last_run(root))]:
        yield f"{where}: installs {names}, unlike Containerfile"


def check_spack(root, version, options):
    where = "packaging/package.py"
    text = (root / where).read_text(encoding="utf-8")
    tree = ast.parse(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    arguments = {name: [call.args[0].value for call in calls if call.func.id == name and isinstance(call.args[0], ast.Constant)]
                 for name in ("version", "variant", "depends_on")}
    if arguments["version"] != [version]:
        yield f"{where}: version {arguments['version']}, but meson.build has {version}"
    used = set(re.findall(r'"-D(\w+)[="]', text)) | set(re.findall(r'feature\("(\w+)"\)', text))
    if used - options - {"wrap_mode"}:
        yield f"{where}: {sorted(used - options)} are no options of Meson"
    if "def meson_args" not in text or not used >= {"mpi", "hdf5", "analysis", "tests", "examples", "benchmarks"}:
        yield f"{where}: options are missing"
    needed = {"c", "cxx", "meson", "ninja", "pkgconfig", "python", "cli11", "nlohmann-json", "tomlplusplus", "fmt", "mpi", "ocl-icd"}
    missing = needed - {re.match(r"[\w-]+", name)[0] for name in arguments["depends_on"]}
    if missing:
        yield f"{where}: depends_on lacks {sorted(missing)}"


def check_wrap(root, version):
    wrap = configparser.ConfigParser()
    wrap.read(root / "packaging/cldist.wrap")
    provided = {name.strip() for name in wrap["provide"]["dependency_names"].split(",")}
    overridden = set(re.findall(r"meson\.override_dependency\('([\w-]+)'", (root / "meson.build").read_text(encoding="utf-8")))
    if wrap["wrap-file"]["directory"] != f"cldist-{version}" or provided != overridden:
        yield f"packaging/cldist.wrap: provides {sorted(provided)} of {wrap['wrap-file']['directory']}, not {sorted(overridden)}"


def main():
    root = pathlib.Path(sys.argv[1])
    if "--print-last-run" in sys.argv:
        print(last_run(root))
        return 0
    version = re.search(r"version: '([\d.]+)'", (root / "meson.build").read_text(encoding="utf-8"))[1]
    options = set(re.findall(r"option\('(\w+)'", (root / "meson_options.txt").read_text(encoding="utf-8")))
    wrong = [*check_containerfile(root), *check_apptainer(root), *check_spack(root, version, options), *check_wrap(root, version)]
    for complaint in wrong:
        print("FAILED:", complaint)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
