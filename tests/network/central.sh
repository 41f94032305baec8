#!/bin/bash
# Runs a program on the first of two hosts. A worker on the second host executes its OpenCL calls.
#
#   central.sh PROJECT_ROOT CLDIST PROGRAM [ARGUMENTS...]
set -u

root=$1 cldist=$2
shift 2
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --rate 1gbit --delay 50us
timeout 240 "$netlab" exec 0 -- "$cldist" run --host-mode central "${on_both_hosts[@]}" --devices cpu -- "$@"
