#!/usr/bin/env python3
"""Checks the documents: links have a target, and the commands on a page work.

Usage: check_docs.py links ROOT
       check_docs.py run PAGE --build FOLDER --mpicc FILE --mpirun "COMMAND ARGUMENT..."

links   Checks that every relative link and picture in the Markdown files under ROOT exists, with its heading, and that every
        picture has a text. A code block that begins with the name of a file of examples/ must be equal to that file. Also checks
        every page of docs/ that a program mentions with a heading, such as "troubleshooting.md#starting".
run     Follows PAGE in an empty folder. Writes a code block to a file if its first line is a comment with a file name
        (`/* ring.c */`, `# jacobi.py`). Runs blocks marked ```console: lines that begin with `$ ` are commands, and the lines
        below are the expected output, in any order. `...` in the output stands for any text. Ignores other blocks.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
NAMED = re.compile(r"^(?:/\*|#|//|!) ([\w-]+\.(?:c|cpp|f90|py|cl|txt))\b")


def anchors_of(text):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def broken_links(root):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True,
                            text=True, check=False).stdout.split()
    pages = [root / name for name in listed] or [page for page in root.rglob("*.md") if "build" not in page.parts[0]]
    for page in pages:
        if not page.exists():
            continue
        text = page.read_text()
        for _, _, block in FENCE.findall(text):
            file = NAMED.match(block)
            example = root / "examples" / file[1] if file else None
            if example and example.exists() and example.read_text() != block:
                yield f"{page.relative_to(root)}: the program differs from examples/{file[1]}"
        prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
        for picture, label, target in LINK.findall(prose):
            where = f"{page.relative_to(root)}: {target}"
            if picture and not label.strip():
                yield f"{where}: the picture has no text"
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (page.parent / name) if name else page
            if not there.exists():
                yield f"{where}: there is no such file"
            elif anchor and there.suffix == ".md" and anchor not in anchors_of(there.read_text()):
                yield f"{where}: the page has no such heading"


def broken_mentions(root):
    """Pages and headings that do not exist, in the messages of programs."""
    for source in [*(root / "src").rglob("*.cpp"), *(root / "tools").rglob("*.cpp")]:
        for name, anchor in re.findall(r'"([\w/-]+\.md)#([\w-]+)"', source.read_text()):
            page = root / "docs" / name
            if not page.exists() or anchor not in anchors_of(page.read_text()):
                yield f"{source.relative_to(root)}: {name}#{anchor}: there is no such page or heading"


def matches(pattern, line):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), line) is not None


def steps_of(block):
    """(command, lines of output) of a console block."""
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps and steps[-1][0].endswith("\\"):
            steps[-1] = (steps[-1][0][:-1] + line, [])
        elif steps:
            steps[-1][1].append(line)
    return steps


def wrapper(folder, name, command):
    path = folder / name
    program, *arguments = shlex.split(command)
    found = shlex.join([shutil.which(program) or program, *arguments])
    path.write_text(f'#!/bin/sh\nexec {found} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def python_with(modules):
    for candidate in ("/usr/bin/python3", "python3"):
        asked = subprocess.run([candidate, "-c", f"import {', '.join(modules)}"], capture_output=True, check=False)
        if asked.returncode == 0:
            return candidate
    return None


def follow(page, build, mpicc, mpirun):
    text = page.read_text()
    root = pathlib.Path(__file__).resolve().parents[1]
    environment = dict(os.environ, EXAMPLES=str(root / "examples"), BUILD=str(build))
    if "$PYTHON" in text:
        python = python_with(["mpi4py", "numpy", "pyopencl"])
        if python is None:
            print(f"SKIP: {page.name}: no python3 has mpi4py, numpy and pyopencl")
            return 77
        environment["PYTHON"] = python
        environment.pop("PYTHONUNBUFFERED", None)  # Python then writes a line's end by itself, and mpirun mixes lines
    with tempfile.TemporaryDirectory() as name:
        folder, commands = pathlib.Path(name, "work"), pathlib.Path(name, "bin")
        folder.mkdir()
        commands.mkdir()
        wrapper(commands, "mpicc", mpicc)
        wrapper(commands, "mpirun", mpirun)
        if "mpifort" in text:
            wrapper(commands, "mpifort", mpicc.replace("mpicc", "mpifort"))
        (commands / "cldist").symlink_to(build / "tools/cldist/cldist")
        environment["PATH"] = f"{commands}:{environment['PATH']}"
        environment["PKG_CONFIG_PATH"] = f"{build}/meson-uninstalled:{environment.get('PKG_CONFIG_PATH', '')}"
        libraries = [build / "src", build / "src/collectives", build / "src/hdf5"]
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
        environment["CPATH"] = str(root / "include")
        environment["PYTHONPATH"] = str(root / "python")
        done = 0
        for _, kind, block in FENCE.findall(text):
            file = NAMED.match(block)
            if file:
                (folder / file[1]).write_text(block)
            if kind != "console":
                continue
            for command, wanted in steps_of(block):
                done += 1
                result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                                        timeout=120, check=False)
                left = [line.rstrip() for line in result.stdout.splitlines()]
                missing = []
                for line in wanted:
                    found = next((other for other in left if matches(line.rstrip(), other)), None)
                    if found is None:
                        missing.append(line)
                    else:
                        left.remove(found)
                if result.returncode != 0 or missing or (wanted and left):
                    print(f"{page.name}: $ {command}\nstatus {result.returncode}\n{result.stdout}{result.stderr}")
                    print("missing: " + "\n".join(missing) + "\nnot on the page: " + "\n".join(left if wanted else []))
                    return 1
        if done == 0:
            print(f"{page.name}: nothing to run")
            return 1
    print(f"{page.name}: {done} commands did what the page says")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["links", "run"])
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--mpicc", default="mpicc")
    parser.add_argument("--mpirun", default="mpirun")
    arguments = parser.parse_args()
    if arguments.what == "links":
        wrong = [*broken_links(arguments.path.resolve()), *broken_mentions(arguments.path.resolve())]
        print("\n".join(wrong) or "all links lead somewhere")
        return 1 if wrong else 0
    return follow(arguments.path.resolve(), arguments.build.resolve(), arguments.mpicc, arguments.mpirun)


if __name__ == "__main__":
    sys.exit(main())
