#!/bin/bash
# `cldist trace` and `cldist doctor` with one process on each of two hosts. The hosts are namespaces
# of one kernel with one clock, so the measured offset must be zero within its uncertainty.
#
#   trace.sh PROJECT_ROOT FOLDER CLDIST PROGRAM [ARGUMENTS...]
set -u

root=$1 folder=$2 cldist=$3
shift 3
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --rate 1gbit --delay 50us

python3 "$root/tests/tools/check_trace_tool.py" "$folder" 2 "$cldist" -- \
    timeout 200 "$netlab" run -n 2 --timeout 180 -- "$@" || exit 1

output=$(timeout 100 "$netlab" run -n 2 --timeout 90 -- "$cldist" doctor)
status=$?
echo "$output"
grep -q 'ranks 0 and 1: on different hosts' <<<"$output" || { echo "FAILED: doctor does not see two hosts"; exit 1; }
[ "$(grep -c 'rank [01]: host ' <<<"$output")" -eq 2 ] || { echo "FAILED: doctor does not list both hosts"; exit 1; }
[ "$status" -le 1 ] || { echo "FAILED: doctor ended with $status"; exit 1; }
