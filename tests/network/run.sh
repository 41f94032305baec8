#!/bin/bash
# Runs a test program with one process on each of two hosts, over a link of 1 Gbit/s and 50 us.
#
#   run.sh PROJECT_ROOT PROGRAM [ARGUMENTS...]
set -u

root=$1
shift
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --rate 1gbit --delay 50us
timeout 420 "$netlab" run -n 2 --timeout 400 -- "$@"
