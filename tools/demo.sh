#!/usr/bin/env bash
# Usage: demo.sh BUILD_DIR
#
# Shows in a minute what cldist does: it overlaps messages with computation, streams a file to a
# device, and runs an OpenCL program on several processes. Prints one line for each, and draws a
# timeline of the messages to BUILD_DIR/demo/timeline.png. The full tables are in the same folder.
# Checks all results, and exits with 1 if one is wrong.
# CLDIST_MPIRUN and CLDIST_PYTHON name the commands that start processes and Python. DEMO_PATIENCE multiplies the time limits.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: demo.sh BUILD_DIR}" && pwd)
demo=$build/demo
python=${CLDIST_PYTHON:-python3}
read -ra mpirun <<<"${CLDIST_MPIRUN:-mpirun}"
rate=200mbit

rm -rf "$demo"
mkdir -p "$demo"

# If PoCL is the device, each process would use all cores, and the two would slow each other down.
cores=$(($(nproc) / 2))
export POCL_MAX_PTHREAD_COUNT=${POCL_MAX_PTHREAD_COUNT:-$((cores > 1 ? cores : 1))}

fail() { # WHAT FILE
    cat "$2" >&2
    echo "demo: $1" >&2
    exit 1
}
# A command fails if it takes longer than LIMIT * DEMO_PATIENCE seconds. After an interrupt, no process keeps
# running: the processes of a namespace end with it.
child=
bounded() { # LIMIT COMMAND...
    timeout -k 10 $(($1 * ${DEMO_PATIENCE:-1})) "${@:2}" &
    child=$!
    wait "$child"
}
end_early() { # STATUS
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null || true
        wait "$child" || true
    fi
    exit "$1"
}
trap 'rm -f "$demo"/proteins.*' EXIT
trap 'end_early 130' INT
trap 'end_early 143' TERM
trap 'end_early 129' HUP
python_says() { "$python" -c "import json, sys; $1" "${@:2}"; } # PROGRAM ARGUMENTS...

# ---- Messages --------------------------------------------------------------------------------------------------------

# Communication takes long only on a slow link. A network namespace has its own loopback device,
# which can be slowed down.
cat >"$demo/shaped" <<'END'
ip link set dev lo mtu 9000 up && tc qdisc replace dev lo root tbf rate "$1" burst 32kb latency 400ms || exit 1
shift
exec "$@"
END
link=()
where="in shared memory, where communication takes little time (a slow link needs root, tc and Open MPI)"
# Open MPI's mpirun reports the name OpenRTE if it runs under another name.
if [ "$(id -u)" = 0 ] && [[ $("${mpirun[@]}" --version 2>/dev/null) =~ Open\ MPI|OpenRTE ]] &&
    unshare --net sh "$demo/shaped" "$rate" true 2>"$demo/shaped.txt"; then
    link=(unshare --net sh "$demo/shaped" "$rate")
    mpirun+=(--mca btl "tcp,self" --mca btl_tcp_if_include lo)
    where="over a link of $rate"
fi
himeno=("${link[@]}" "${mpirun[@]}" -n 2 "$build/examples/himeno/himeno" --size M)

bounded 120 "${himeno[@]}" --iterations 20 --rounds 3 --check --json "$demo/himeno.json" >"$demo/himeno.txt" 2>&1 ||
    fail "Himeno took too long, or a check failed" "$demo/himeno.txt"
for variant in serial chained-k; do
    bounded 60 env "CLDIST_TRACE=$demo/trace-$variant" "${himeno[@]}" --iterations 8 --variant "$variant" --check >"$demo/$variant.txt" 2>&1 ||
        fail "the traced run of $variant failed" "$demo/$variant.txt"
done
echo "Himeno on 2 processes, $where:"
python_says 'speed = {v["name"]: v["mflops"] for v in json.load(open(sys.argv[1]))["variants"]}
name = max(("chained", "chained-k"), key=speed.get)
serial, commands = speed["serial"], speed[name]
print(f"    blocking calls {serial:.0f} MFLOPS, cldist commands {commands:.0f} ({name}): {commands / serial:.2f} times as fast")' \
    "$demo/himeno.json"

# ---- Files -----------------------------------------------------------------------------------------------------------

search=$build/examples/smith_waterman/smith_waterman
printf '>a short query\nMVLSPADKTNVKAAWGKVGAHAGEYGAE\n' >"$demo/query.fasta"
{
    bounded 60 "$search" generate --residues 16M "$demo/proteins.fasta" &&
        bounded 60 "$search" pack "$demo/proteins.fasta" "$demo/proteins.db" &&
        bounded 120 "$search" search --query "$demo/query.fasta" --blocks 1M --rounds 5 --cache cold --check 2 --json "$demo/search.json" \
            "$demo/proteins.db"
} >"$demo/search.txt" 2>&1 || fail "the protein search failed or took too long" "$demo/search.txt"
echo "A protein database of 16 MB, streamed from its file to the device:"
python_says 'total = {s["host"]: s["total"] for s in json.load(open(sys.argv[1]))["series"]}
serial, chained = total["serial"], total["event-chained"]
print(f"    fread and copies {serial * 1e3:.0f} ms, cldist commands {chained * 1e3:.0f} ms: {serial / chained:.2f} times as fast")' \
    "$demo/search.json"

# ---- The cluster platform --------------------------------------------------------------------------------------------

seconds_on() { # PROCESSES: sets seconds
    bounded 120 "$build/tools/cldist/cldist" run -n "$1" "$build/examples/cluster/nbody" --size 6000 --iterations 4 >"$demo/nbody-$1.txt" 2>&1 ||
        fail "nbody on $1 processes failed" "$demo/nbody-$1.txt"
    seconds=$(sed -n 's/.*: \([0-9.]*\) s, .*correct$/\1/p' "$demo/nbody-$1.txt")
    [ -n "$seconds" ] || fail "nbody on $1 processes gave a wrong result" "$demo/nbody-$1.txt"
}
# Each device gets the same number of threads, because the processes stand for machines.
export POCL_CPU_MAX_CU_COUNT=${POCL_CPU_MAX_CU_COUNT:-$POCL_MAX_PTHREAD_COUNT}
seconds_on 1
one=$seconds
seconds_on 2
echo "A plain OpenCL program (nbody) under \`cldist run\`:"
python_says 'one, two = map(float, sys.argv[1:])
print(f"    1 process {one:.2f} s, 2 processes {two:.2f} s: {one / two:.2f} times as fast")' "$one" "$seconds"

echo
"$python" "$here/timeline.py" --iterations 4 --output "$demo/timeline.png" \
    "serial=$demo/trace-serial" "event-chained, waiting every 10 iterations=$demo/trace-chained-k"
