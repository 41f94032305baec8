#!/usr/bin/env python3
"""Checks the completions that a shell offers for `cldist`.

Usage: check_completion.py SHELL FOLDER

SHELL is bash, zsh or fish. FOLDER contains the files of tools/completions.py.
"""

import pathlib
import re
import shutil
import subprocess
import sys

# The words of a command line, and some completions that the shell must offer for the last word.
LINES = {
    ("cldist", "d"): ["doctor", "devices"],
    ("cldist", "run", "--host-m"): ["--host-mode"],
    ("cldist", "run", "--host-mode", ""): ["auto", "central", "replicated"],
    ("cldist", "trace", "-"): ["--output", "--per-rank", "--partial"],
    ("cldist", "run", "-n", "2", "/bin/tru"): ["/bin/true"],
}

BASH = """source "$1/cldist"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _cldist; printf '%s\\n' "${COMPREPLY[@]}" """
FISH = """source $argv[1]/cldist.fish
complete -C (string join " " -- $argv[2..]) | string replace -r "\\t.*" "" """
# zsh completes only in a terminal.
ZSH = """zmodload zsh/zpty; folder=$1; shift
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=($folder \\$fpath); autoload -U compinit; compinit -u -d $folder/dump"
zpty -w shell "bindkey '^I' list-choices; zstyle ':completion:*' menu no; LISTMAX=0; stty -echo; print be''gin"
zpty -r shell line '*begin*'
zpty -w -n shell "$*"$'\\t'; sleep 2; zpty -w -n shell $'\\x15'"print e''nd"$'\\n'
zpty -r shell line '*end*'; print -r -- "$line" """


def offered(shell, folder, words):
    if shell == "bash":
        command = ["bash", "--norc", "-c", BASH, "bash", folder, *words]
    elif shell == "fish":
        command = ["fish", "--no-config", "-c", FISH, folder, *words]
    else:
        command = ["zsh", "-f", "-c", ZSH, "zsh", folder, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, errors="replace")
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", done.stdout).split(), done.stderr


def main():
    shell, folder = sys.argv[1:]
    if shutil.which(shell) is None:
        print(f"SKIP: {shell} is not installed")
        return 77
    failures = 0
    for words, expected in LINES.items():
        found, errors = offered(shell, str(pathlib.Path(folder).resolve()), words)
        if shell == "zsh" and words[-1] in ("--host-m", "/bin/tru"):
            continue  # zsh inserts the only completion instead of listing it
        missing = [word for word in expected if word not in found]
        if missing:
            failures += 1
            print(f"FAILED: for {' '.join(words)!r} {shell} does not offer {missing}; it offers {found[:30]} {errors}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
