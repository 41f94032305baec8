#!/bin/bash
# Runs an OpenCL program on two hosts with an installed `cldist run`. The environment contains only
# the variables that mpirun needs.
#
#   installed.sh PROJECT_ROOT BUILD_FOLDER PROGRAM
set -u

root=$1 build=$2 program=$3
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root"

folder=$(mktemp -d)
DESTDIR=$folder meson install -C "$build" --no-rebuild --quiet || { echo "FAILED: meson install"; exit 1; }
cldist=$(find "$folder" -path '*/bin/cldist')

# netlab starts mpirun. Each rank starts `cldist run --rank`, as `cldist run` does.
output=$(env -u LD_LIBRARY_PATH "XDG_CACHE_HOME=$folder" timeout 100 "$netlab" run -n 2 --timeout 90 -- \
    "$cldist" run --rank --check-devices --devices cpu -- "$program" --devices 2 2>&1)
status=$?
echo "$output"
rm -rf "$folder"
[ "$status" = 0 ] || { echo "FAILED: the job ended with $status"; exit 1; }
grep -q ' 2 devices: .*correct' <<<"$output" || { echo "FAILED: no result of two devices"; exit 1; }
