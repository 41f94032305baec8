#!/bin/sh
# Runs a program with the name of a case and a new file, and prints the file's final size.
#     unfinished.sh PROGRAM CASE
set -eu
file=$(mktemp)
trap 'rm -f "$file"' EXIT
"$1" "$2" "$file"
echo "$(stat -c %s "$file") bytes are in the file" >&2
