#!/bin/bash
# Runs a test program with one process on each of two hosts, over a link of 1 Gbit/s and 50 us. The hosts are network
# namespaces, made by a script named `netlab`: $CLDIST_NETLAB, or ../shared/netlab/netlab next to the project.
#
#   run.sh PROJECT_ROOT PROGRAM [ARGUMENTS...]
set -u

skip() {
    echo "SKIP: network: $1"
    exit 77
}

root=$1
shift
netlab=${CLDIST_NETLAB:-$root/../shared/netlab/netlab}
[ -x "$netlab" ] || skip "no netlab script (CLDIST_NETLAB)"
[ "$(id -u)" = 0 ] || skip "needs root"
for tool in ip unshare nsenter; do
    command -v "$tool" >/dev/null || skip "needs $tool (iproute2, util-linux)"
done
for tool in tc iptables; do
    command -v "$tool" >/dev/null || skip "needs $tool (iproute2, iptables)"
done
mpirun --version 2>/dev/null | grep -q 'Open MPI.* 4\.' || skip "needs Open MPI 4"

export NETLAB_NAME=c$(($$ % 100000))n # a lab of our own; the name is part of interface names, which are short
trap 'timeout 60 "$netlab" down >/dev/null 2>&1' EXIT
trap 'exit 130' INT TERM

# A lab that can't be made on this machine (containers often forbid it) says nothing about the library.
if ! output=$(timeout 120 "$netlab" up 2 --rate 1gbit --delay 50us --no-check 2>&1); then
    echo "$output"
    skip "netlab could not make its hosts"
fi
echo "$output"
timeout 420 "$netlab" run -n 2 --timeout 400 -- "$@"
