#!/usr/bin/env bash
# Usage: demo.sh BUILD_DIR
#
# Runs the Himeno benchmark on two processes, all host programs checked against the sequential reference, then
# draws the time line of a few iterations to BUILD_DIR/demo/timeline.png. Exits with 1 if a check failed.
# CLDIST_MPIRUN and CLDIST_PYTHON name the commands to start processes and Python.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: demo.sh BUILD_DIR}" && pwd)
himeno=$build/examples/himeno/himeno
demo=$build/demo
read -ra mpirun <<<"${CLDIST_MPIRUN:-mpirun}"

# Where PoCL is the device, each process would compute on all cores and the two would be in each other's way.
cores=$(($(nproc) / 2))
export POCL_MAX_PTHREAD_COUNT=${POCL_MAX_PTHREAD_COUNT:-$((cores > 1 ? cores : 1))}
echo "PoCL computes with $POCL_MAX_PTHREAD_COUNT thread(s) in each process."
echo

rm -rf "$demo"
mkdir -p "$demo"
if ! "${mpirun[@]}" -n 2 "$himeno" --size M --iterations 40 --rounds 3 --check --json "$demo/himeno.json"; then
    echo "demo: a check failed" >&2
    exit 1
fi

for variant in serial chained-k; do
    CLDIST_TRACE=$demo/trace-$variant "${mpirun[@]}" -n 2 "$himeno" \
        --size M --iterations 20 --variant "$variant" --check >"$demo/$variant.txt" || {
        cat "$demo/$variant.txt" >&2
        echo "demo: the traced run of $variant failed" >&2
        exit 1
    }
done

echo
"${CLDIST_PYTHON:-python3}" "$here/../../tools/timeline.py" --iterations 4 --output "$demo/timeline.png" \
    "serial=$demo/trace-serial" "event-chained, waiting every 10 iterations=$demo/trace-chained-k"
