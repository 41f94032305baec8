#!/usr/bin/env python3
"""Writes docs/configuration.md from src/base/config.def, the list of all settings.

Usage: config_doc.py [--check] CONFIG_DEF MANUAL. With --check it writes nothing and fails if MANUAL is out of date.
"""

import pathlib
import re
import sys

HEAD = """# Settings

<!-- Made by tools/config_doc.py from src/base/config.def; `./dev build` renews it. -->

Settings are environment variables. Set them to the same value for all processes. `mpirun` passes them to processes on the same host. For other hosts use
`-x NAME` with Open MPI and `-genv NAME VALUE` with MPICH. `cldist run` passes them to all hosts. `cldist config` prints all settings with their values.
cldist reports a misspelt name or an invalid value once, and ignores it.
"""
# A string, a comment, or another token that matters for the end of an argument.
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/|[(),{}]|[^"\'(),{}/]+|/', re.DOTALL)
CALL = re.compile(r"^[ \t]*CLDIST_SETTING\s*\(", re.MULTILINE)
GROUP = re.compile(r"^// ---- (.+)$", re.MULTILINE)


def arguments_of(text):
    """Returns the top-level arguments of a macro call. `text` begins after its opening parenthesis."""
    arguments, depth = [""], 0
    for token in TOKEN.findall(text):
        if token.startswith(("//", "/*")):
            continue
        if token in ("(", "{"):
            depth += 1
        elif token in (")", "}"):
            depth -= 1
        if depth < 0:
            return [argument.strip() for argument in arguments]
        if token == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += token
    raise ValueError("CLDIST_SETTING( without its closing parenthesis")


def unquoted(argument):
    """Returns the text of adjacent C string literals; returns any other argument unchanged."""
    literals = re.findall(r'"((?:\\.|[^"\\])*)"', argument)
    if not literals or re.sub(r'"(?:\\.|[^"\\])*"', "", argument).strip():
        return argument
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), "".join(literals))


def settings_of(text):
    """Yields (group, name, default, description) of each CLDIST_SETTING(type, field, "NAME", default, "description")."""
    groups = [(match.start(), match[1]) for match in GROUP.finditer(text)]
    for call in CALL.finditer(text):
        arguments = arguments_of(text[call.end():])
        if len(arguments) != 5:
            raise ValueError(f"CLDIST_SETTING({', '.join(arguments)}) has {len(arguments)} arguments, not 5")
        group = next((name for start, name in reversed(groups) if start < call.start()), "Other")
        yield (group, *(unquoted(argument) for argument in arguments[2:]))


def section(name, default, description):
    """Returns the section of one setting: the description, the list of values, the default and an example."""
    parts = [f"### `{name}`", ""]
    for line in description.split("\n"):
        if line.startswith("Example: "):
            line = f"Default: {readable(default)}. {line}."
        if parts[-1] and not (line.startswith("- ") and parts[-1].startswith("- ")):
            parts.append("")
        parts.append(line)
    if "Default: " not in parts[-1]:
        parts += ["", f"Default: {readable(default)}."]
    return "\n".join(parts) + "\n"


def readable(default):
    """Returns a default as a user would write it: 64M for Bytes{64U << 20U}, auto for Path::automatic, 30 for 30.0."""
    value = re.sub(r"^\w+\{(.*)\}$", r"\1", default)
    value = re.sub(r"(?<=[0-9])[uUlLzZ]+", "", value).replace("'", "")
    shift = re.fullmatch(r"(\d+)\s*<<\s*(\d+)", value)
    if shift:
        number = int(shift[1]) << int(shift[2])
        suffix = next(((unit, bits) for unit, bits in (("G", 30), ("M", 20), ("k", 10)) if number % (1 << bits) == 0),
                      ("", 0))
        value = f"{number >> suffix[1]}{suffix[0]}"
    value = re.sub(r"^(\d+)\.0*$", r"\1", value).split("::")[-1]
    value = {"automatic": "auto"}.get(value, value)
    return f"`{value}`" if value not in ("", '""') else "empty"


def manual(text):
    parts, last = [HEAD], None
    for group, name, default, description in settings_of(text):
        if group != last:
            parts.append(f"## {group}\n")
            last = group
        parts.append(section(name, default, description))
    if last is None:
        raise ValueError("no CLDIST_SETTING found")
    return "\n".join(parts)


def main():
    arguments = sys.argv[1:]
    checking = arguments[:1] == ["--check"]
    arguments = arguments[checking:]
    if len(arguments) != 2:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, arguments)
    wanted = manual(source.read_text())
    current = target.read_text() if target.exists() else None
    if checking:
        sys.exit(None if wanted == current else f"{target} is out of date: run tools/config_doc.py {source} {target}")
    if wanted != current:
        target.write_text(wanted)
        print(f"{target} written")


if __name__ == "__main__":
    main()
