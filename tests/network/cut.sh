#!/bin/bash
# Cuts the link between two hosts during two large messages. Repairs it after the stall is reported
# on this side, because the other side's report needs the link. Then both messages must arrive.
#
#   cut.sh PROJECT_ROOT PROGRAM
set -u

root=$1
program=$2
# shellcheck source=tests/network/lab.sh
# shellcheck source-path=SCRIPTDIR source=lab.sh
. "$root/tests/network/lab.sh"
make_lab "$root" --rate 400mbit --delay 50us

folder=$(mktemp -d)
log=$folder/log
export CLDIST_STALL_SECONDS=3
timeout 120 "$netlab" run -n 2 --timeout 110 -- "$program" cut "$folder" >"$log" 2>&1 &
job=$!

report_of() { # RANK
    grep -q "cldist\[$1\]:.*send to rank $((1 - $1)), tag 1" "$log" ||
        grep -q "cldist\[$1\]:.*recv from rank $((1 - $1)), tag 1" "$log"
}

await 40 "messages in their middle" test -e "$folder/moving"
"$netlab" cut 1 || fail "netlab could not cut the link"
echo "the link has been cut"
await 30 "a report of the process on this side of the cut" report_of 0
if grep -q "has received its message" "$log"; then fail "a message arrived over the cut link"; fi
"$netlab" heal 1 || fail "netlab could not repair the link"
echo "the link has been repaired"
wait "$job"
status=$?
cat "$log"
report_of 1 || { echo "FAILED: the process behind the cut has not reported"; status=1; }
rm -rf "$folder"
[ "$status" = 0 ] || { echo "FAILED: the job ended with $status"; exit 1; }
