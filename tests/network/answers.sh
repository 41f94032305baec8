#!/bin/bash
# `cldist run` itself with one process on each of two hosts: rank 0's answers come to the other host by TCP.
#
#   answers.sh PROJECT_ROOT CHECK CLDIST FOLDER PROGRAM
set -u

root=$1
shift
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --rate 1gbit --delay 50us

options=(--host "10.77.0.1,10.77.0.2")
for argument in --mca plm rsh --mca plm_rsh_agent "/run/netlab/$NETLAB_NAME/launch" --mca plm_rsh_no_tree_spawn 1 \
    --mca oob_tcp_if_include 10.77.0.0/24 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca pml ob1 \
    --mca orte_leave_session_attached 1; do
    options+=("--mpirun-option=$argument")
done
timeout 150 "$netlab" exec 0 -- python3 "$@" "${options[@]}"
