#!/bin/sh
# Runs a program with a case's name and a new file, and tells how large the file is in the end.
#     unfinished.sh PROGRAM CASE
set -eu
file=$(mktemp)
trap 'rm -f "$file"' EXIT
"$1" "$2" "$file"
echo "$(stat -c %s "$file") bytes are in the file" >&2
