#!/usr/bin/env bash
# Writes checkpoints with some processes, and goes on from one with others; every point is compared.
# Usage: test.sh WRITERS READERS WRITING_PROGRAM READING_PROGRAM MPIRUN...
set -euo pipefail
writers=$1 readers=$2 writing=$3 reading=$4
shift 4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$@" -n "$writers" "$writing" --size XS --iterations 23 --every 7 --file "$folder/field" --check
[ "$(ls "$folder")" = "$(printf 'field-%s.h5\n' 14 21 7)" ] || { echo "not the checkpoints expected: $(ls "$folder")"; exit 1; }
# After an odd number of iterations and after an even one.
for iteration in 7 14; do
    "$@" -n "$readers" "$reading" --size XS --iterations 9 --every 0 --restart "$folder/field-$iteration.h5" --check
done
# A file that is none is refused.
echo "not HDF5" >"$folder/none.h5"
if "$@" -n "$readers" "$reading" --size XS --iterations 1 --restart "$folder/none.h5"; then
    echo "a file that is none was read"
    exit 1
fi
