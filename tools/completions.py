#!/usr/bin/env python3
"""Writes completions of `cldist` for bash, zsh and fish from the texts of `cldist --help` and `cldist COMMAND --help`.

Usage: completions.py CLDIST FOLDER COMMAND...

Creates cldist (bash), _cldist (zsh) and cldist.fish in FOLDER.
"""

import pathlib
import re
import sys
from dataclasses import dataclass

import man_pages


@dataclass
class Option:
    names: list  # ["-o", "--output"]
    kind: str  # "" without a value, else "file", "text" or "choice"
    choices: list
    text: str


@dataclass
class Command:
    name: str
    text: str
    options: list
    operand: str  # "program", "folder", "file" or ""


def option_of(term, text):
    names, *rest = term.split()
    value = rest[0] if rest and not re.match(r"(Excludes|Needs):|REQUIRED", rest[0]) else ""
    choices = re.search(r"\{([^}]*)\}", value)
    kind = "choice" if choices else "file" if value.endswith(":FILE") else "text" if value else ""
    return Option(names.split(","), kind, choices[1].split(",") if choices else [], text)


def command_of(cldist, name):
    text = man_pages.help_of(cldist, *[name] if name else [])
    summary, usage, lists, _ = man_pages.sections_of(text)
    options = [option_of(term, text) for term, text in lists["Options"]]
    operand = next((kind for word, kind in (("PROGRAM [", "program"), ("[PROGRAM]", "file"), ("FOLDER", "folder"))
                    if word in usage), "")
    return Command(name, summary, options, operand)


BASH = r"""# Completion of cldist for bash. Generated from `cldist --help`.
_cldist() {
    local word=${COMP_WORDS[COMP_CWORD]} command='' options='' values='' operand='' i
    [ "$COMP_CWORD" -eq 1 ] || command=${COMP_WORDS[1]}
    COMPREPLY=()
    case $command in
@CASES@
        *) return;;
    esac
    # Behind its program, `cldist run` passes on everything.
    for ((i = 2; i < COMP_CWORD; ++i)); do
        case " $values " in *" ${COMP_WORDS[i]} "*) ((++i)); continue;; esac
        case ${COMP_WORDS[i]} in
            -?*) ;;
            *) [ "$operand" != program ] || { compopt -o default 2>/dev/null; return; };;
        esac
    done
    case "$command ${COMP_WORDS[COMP_CWORD - 1]}" in
@CHOICES@
    esac
    case " $values " in *" ${COMP_WORDS[COMP_CWORD - 1]} "*) compopt -o default 2>/dev/null; return;; esac
    if [ -z "$command" ] || [[ $word == -* ]]; then
        readarray -t COMPREPLY < <(compgen -W "$options" -- "$word")
        return
    fi
    case $operand in
        program) readarray -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word");;
        folder) compopt -o dirnames 2>/dev/null;;
        file) compopt -o default 2>/dev/null;;
    esac
}
complete -F _cldist cldist
"""


def bash(top, commands):
    cases, choices = [], []
    for command in [top, *commands]:
        names = [name for option in command.options for name in option.names]
        names = names if command.name else [other.name for other in commands] + names
        values = [name for option in command.options if option.kind for name in option.names]
        label = command.name or "''"
        cases.append(f"        {label}) options='{' '.join(names)}' values='{' '.join(values)}' operand='{command.operand}';;")
        for option in command.options:
            for name in option.names if option.kind == "choice" else []:
                choices.append(f"        '{command.name} {name}') readarray -t COMPREPLY < "
                               f"<(compgen -W '{' '.join(option.choices)}' -- \"$word\"); return;;")
    return BASH.replace("@CASES@", "\n".join(cases)).replace("@CHOICES@", "\n".join(choices))


def quoted(text, specials=""):
    """As one word of zsh or fish in single quotes."""
    for special in "\\" + specials:
        text = text.replace(special, "\\" + special)
    return text


def zsh_word(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_options(command):
    specs = []
    for option in command.options:
        action = {"": "", "text": ":value: ", "file": ":file:_files",
                  "choice": f":value:({' '.join(option.choices)})"}[option.kind]
        group = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
        for name in option.names:
            specs.append(zsh_word(f"{group}{name}[{quoted(option.text, '[]:')}]{action}"))
    return specs


def zsh(top, commands):
    described = " ".join(f"{command.name}\\:{zsh_word(command.text)}" for command in commands)
    lines = ["#compdef cldist", "# Completion of cldist for zsh. Generated from `cldist --help`.", "local context state line",
             "_arguments -C \\", *[f"    {spec} \\" for spec in zsh_options(top)], f"    {zsh_word(f'1:command:(({described}))')} \\",
             "    '*::argument:->argument'", "[[ $state == argument ]] || return", "case $words[1] in"]
    operands = {"program": ["'(-):program:_command_names -e'", "'*::argument:_normal'"], "folder": ["'1:folder:_directories'"],
                "file": ["'1:file:_files'"], "": []}
    for command in commands:
        specs = zsh_options(command) + operands[command.operand]
        lines.append(f"    {command.name}) _arguments " + " \\\n        ".join(specs) + ";;")
    return "\n".join([*lines, "esac"]) + "\n"


def fish_options(condition, options):
    for option in options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        value = {"": "", "text": " -x", "file": " -r -F", "choice": f" -x -a '{' '.join(option.choices)}'"}[option.kind]
        yield f"complete -c cldist -n '{condition}' {names}{value} -d '{quoted(option.text, chr(39))}'"


def fish(top, commands):
    lines = ["# Completion of cldist for fish. Generated from `cldist --help`.",
             *fish_options("__fish_use_subcommand", top.options)]
    for command in commands:
        text = quoted(command.text, "'")
        lines.append(f"complete -c cldist -n __fish_use_subcommand -f -a {command.name} -d '{text}'")
        condition = f"__fish_seen_subcommand_from {command.name}"
        lines += fish_options(condition, command.options)
        operand = {"program": "-a '(__fish_complete_subcommand)'", "folder": "-f -a '(__fish_complete_directories)'",
                   "file": "-F", "": "-f"}[command.operand]
        lines.append(f"complete -c cldist -n '{condition}' {operand}")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cldist, folder, *names = sys.argv[1:]
    top, *commands = [command_of(cldist, name) for name in ["", *names]]
    for name, write in (("cldist", bash), ("_cldist", zsh), ("cldist.fish", fish)):
        pathlib.Path(folder, name).write_text(write(top, commands))


if __name__ == "__main__":
    main()
