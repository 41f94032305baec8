#!/bin/bash
# Deterministic system calls with one process on each of two hosts: rank 0's answers reach the other
# host over TCP.
#
#   answers.sh PROJECT_ROOT CHECK CLDIST FOLDER PROGRAM
set -u

root=$1
shift
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --rate 1gbit --delay 50us

timeout 150 "$netlab" exec 0 -- python3 "$@" "${on_both_hosts[@]}"
