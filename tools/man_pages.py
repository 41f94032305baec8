#!/usr/bin/env python3
"""Writes the manual pages cldist(1) and cldist-COMMAND(1) from the output of `cldist --help` and `cldist COMMAND --help`.

Usage: man_pages.py CLDIST VERSION FOLDER COMMAND...
"""

import os
import pathlib
import re
import subprocess
import sys


def help_of(cldist, *command):
    return subprocess.run([cldist, *command, "--help"], capture_output=True, text=True, check=True, timeout=60,
                          env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0")).stdout


def escaped(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


def sections_of(text):
    """Returns the summary, the usage line, {heading: [(term, explanation)]}, and the paragraphs after the options."""
    lines = text.splitlines()
    usage = next(i for i, line in enumerate(lines) if line.startswith("Usage: "))
    summary = " ".join(line for line in lines[:usage] if line)
    lists, heading, at = {}, None, usage + 1
    while at < len(lines):
        line = lines[at]
        if re.fullmatch(r"[A-Z]\w+:", line):
            heading = line[:-1]
            lists[heading] = []
        elif heading and re.match(r"  \S", line):
            # An explanation begins in column 30, or in the next line behind a long term.
            is_term = len(line) < 31 or line[29] != " " or line[30] == " " or re.search(r"(Excludes|Needs):", line[:30])
            term, explanation = (line, "") if is_term else (line[:30], line[30:])
            lists[heading].append((term.strip(), explanation))
        elif heading and line.startswith(" " * 10):
            term, explanation = lists[heading].pop()
            lists[heading].append((term, f"{explanation} {line.strip()}".strip()))
        elif line:
            break
        at += 1
    return summary, lines[usage][len("Usage: "):], lists, lines[at:]


def term_of(term):
    """Removes CLI11's notes about the type of an option and what it excludes."""
    term = re.sub(r" (Excludes|Needs):.*", "", term)
    return re.sub(r":[^ ]*( in \[[^\]]*\])?", "", term)


def page(name, version, text, others):
    summary, usage, lists, rest = sections_of(text)
    out = [f'.TH {name.upper()} 1 "" "cldist {version}" "User commands"', ".SH NAME", f"{name} \\- {escaped(summary.rstrip('.'))}",
           ".SH SYNOPSIS", f".B {escaped(usage)}"]
    if any(rest):
        out.append(".SH DESCRIPTION")
        indented = False
        for line in rest:
            if line.startswith("  ") != indented:
                indented = not indented
                out.append(".nf" if indented else ".fi")
            out.append(escaped(line) if line else ".PP")
        if indented:
            out.append(".fi")
    for heading, entries in lists.items():
        out.append(f".SH {'COMMANDS' if heading == 'Subcommands' else heading.upper()}")
        for term, explanation in entries:
            out += [".TP", f".B {escaped(term_of(term))}", escaped(explanation)]
    out += [".SH SEE ALSO", ", ".join(f"\\fB{escaped(other)}\\fR(1)" for other in others if other != name)]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cldist, version, folder, *commands = sys.argv[1:]
    names = ["cldist"] + [f"cldist-{command}" for command in commands]
    for name, command in zip(names, [[]] + [[command] for command in commands]):
        pathlib.Path(folder, f"{name}.1").write_text(page(name, version, help_of(cldist, *command), names))


if __name__ == "__main__":
    main()
