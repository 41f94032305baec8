#!/bin/bash
# `cldist run` with one process on each of two hosts, in both host modes. First the link is cut, and
# the host behind it must be reported. Then the link is repaired, which must be reported as well.
# Finally the host dies: the job must end and report that host.
#
#   lost.sh PROJECT_ROOT CLDIST PROGRAM [ARGUMENTS...]     the program prints "ready", and runs on
set -u

root=$1 cldist=$2
shift 2
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --delay 50us

folder=$(mktemp -d)
log=$folder/log
host=${NETLAB_NAME}1
export CLDIST_STALL_SECONDS=3
for mode in central replicated; do
    timeout 120 "$netlab" exec 0 -- "$cldist" run --host-mode $mode "${on_both_hosts[@]}" --devices cpu -- "$@" >"$log" 2>&1 &
    job=$!
    await 60 "the program" grep -q '^ready' "$log"
    "$netlab" cut 1 || fail "netlab could not cut the link"
    await 30 "a report of the host behind the cut" grep -q "rank 1 (host $host) has not answered for 3 s" "$log"
    "$netlab" heal 1 || fail "netlab could not repair the link"
    await 60 "a report that it answers again" grep -q "rank 1 (host $host) answers again" "$log"
    "$netlab" kill 1 || fail "netlab could not kill the host"
    wait "$job"
    status=$?
    echo "$mode: status $status"
    cat "$log"
    [ "$status" = 1 ] || fail "the job without the host ended with $status"
    # Either the host's own name or the name given to --hosts.
    grep -Eq "^cldist run: host ($host|10\.77\.0\.2) is lost" "$log" || fail "the lost host is not reported"
    grep -q 'ORTE' "$log" && fail "Open MPI's own report is printed, too"
done
rm -rf "$folder"
