#!/usr/bin/env bash
# Builds, tests and measures on a machine with NVIDIA GPUs, in less than 8 minutes. Every step has a
# time limit. If a step fails, the next ones still run.
#
# Usage: bench/device.sh [DRIVER_LIBRARIES]
#
# DRIVER_LIBRARIES is the folder of the driver's libraries. Give it if the linker does not find them.
# Environment:
#   BUILD_DIR                the build folder (build-device)
#   CLDIST_DRIVER_LIBRARIES  the same as DRIVER_LIBRARIES
#   CLDIST_DEVICE_STEPS      the steps to run; default: "setup build devices steps copies platform small tests ordered auto
#                            exportable shared nccl context himeno chunked staged enqueue"; one more step is "cpu"
#   CLDIST_DEVICE_TARGETS    what to build (everything)
#   CLDIST_DEVICE_SECONDS    when to stop, in seconds after the start (460)
#   CLDIST_HEADERS           a folder with headers that the system lacks: toml++, CLI, nlohmann (.headers)
#   OUT                      the folder for the logs of the steps, at most 8 files
# A summary comes last.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
BUILD_DIR=$(realpath -m -- "${BUILD_DIR:-build-device}")
export BUILD_DIR
logs=${OUT:-$BUILD_DIR/device-logs}
mkdir -p "$logs" "$BUILD_DIR"
rm -f "$logs"/{build,tests,p2p,himeno,enqueue,steps,copies,context}.log "$BUILD_DIR"/bench-results/*.json
steps=${CLDIST_DEVICE_STEPS:-setup build devices steps copies platform small tests ordered auto exportable shared nccl context himeno chunked staged enqueue}
deadline=${CLDIST_DEVICE_SECONDS:-460} # in seconds after the start
summary=()

driver=${1:-${CLDIST_DRIVER_LIBRARIES:-}}
if [ -n "$driver" ]; then export LD_LIBRARY_PATH=$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
# In a container, the mounted driver is often not registered with the loader.
if ! grep -qs nvidia /etc/OpenCL/vendors/*.icd; then
    mkdir -p "$BUILD_DIR/vendors"
    cp /etc/OpenCL/vendors/*.icd "$BUILD_DIR/vendors" 2>/dev/null
    echo libnvidia-opencl.so.1 >"$BUILD_DIR/vendors/nvidia.icd"
    # The loader reads the first variable, the cluster platform the second.
    export OCL_ICD_VENDORS=$BUILD_DIR/vendors/ CLDIST_NATIVE_ICDS=$BUILD_DIR/vendors/
fi
export only=$BUILD_DIR/nvidia-alone # the folder of one driver
mkdir -p "$only"
echo libnvidia-opencl.so.1 >"$only/nvidia.icd"
unset OCL_ICD_FILENAMES # these platforms would come before the cluster platform
# mpirun loads OpenCL platforms through hwloc. The loader then cuts off OCL_ICD_FILENAMES for the
# ranks.
export HWLOC_COMPONENTS=-opencl
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
mpirun=$(command -v mpirun.openmpi || command -v mpirun || echo mpirun)
export CLDIST_MPIRUN="$mpirun --oversubscribe --bind-to none"
read -ra mpirun <<<"$CLDIST_MPIRUN"
headers=$(realpath -m -- "${CLDIST_HEADERS:-.headers}")
if [ -d "$headers" ]; then export CPATH=$headers${CPATH:+:$CPATH}; fi
meson=(meson)
command -v meson >/dev/null || meson=(python3 -m mesonbuild.mesonmain)

# step NAME LOG SECONDS COMMAND...: runs the command and appends its output to LOG.
# Stops it after SECONDS, or at the deadline.
step() {
    local name=$1 log=$logs/$2.log limit=$3 start=$SECONDS code
    shift 3
    case " $steps " in *" $name "*) ;; *) return;; esac
    if [ $((deadline - SECONDS)) -lt "$limit" ]; then limit=$((deadline - SECONDS)); fi
    if [ "$limit" -lt 5 ]; then
        summary+=("$name: SKIPPED, no time left")
        return
    fi
    printf '== %s\n' "$name" | tee -a "$log"
    timeout --kill-after=5 "$limit" "$@" >>"$log" 2>&1
    code=$?
    case $code in
        0) summary+=("$name: ok, $((SECONDS - start)) s");;
        124|137) summary+=("$name: STOPPED after $((SECONDS - start)) s");;
        *) summary+=("$name: FAILED ($code), $((SECONDS - start)) s");;
    esac
}

reconfigure=()
if [ -f "$BUILD_DIR/build.ninja" ]; then reconfigure=(--reconfigure); fi

step setup build 40 "${meson[@]}" setup "$BUILD_DIR" "${reconfigure[@]}" -Dmpi=openmpi
read -ra targets <<<"${CLDIST_DEVICE_TARGETS:-}"
step build build 150 "${meson[@]}" compile -C "$BUILD_DIR" --ninja-args=-k0 "${targets[@]}"
step devices build 15 "$BUILD_DIR/bench/p2p" --list --device gpu
# One process: measures the driver's time for each step of a small message, and copies of the
# program's memory natively and on the cluster platform.
step steps steps 20 "${mpirun[@]}" -n 1 "$BUILD_DIR/bench/steps" --device gpu
step steps steps 20 "${mpirun[@]}" -n 1 "$BUILD_DIR/bench/steps" --device gpu --idle 1 --rounds 50
copies() {
    "$BUILD_DIR/bench/cluster_host"
    for how in native staged; do
        printf '\nOn the platform, CLDIST_HOST_COPIES=%s\n' "$how"
        CLDIST_HOST_COPIES=$how "$BUILD_DIR/tools/cldist/cldist" run -n 1 -- "$BUILD_DIR/bench/cluster_host"
    done
}
export -f copies
step copies copies 60 bash -c copies
step small p2p 40 env CLDIST_BENCH_PATHS=auto bench/run p2p --device gpu --max 4K --rounds 5 \
    --methods cldist,cldist-event,read-write-pinned,mpi --label "auto, small"
step cpu p2p 60 env CLDIST_BENCH_PATHS="auto mapped chunked shared" bench/run p2p --min 16K --max 16M --rounds 5 \
    --methods cldist,cldist-event,mpi
for n in 1 2; do
    for program in test_cluster test_cluster_collectives; do
        step platform tests 30 "$BUILD_DIR/tools/cldist/cldist" run -n $n -- "$BUILD_DIR/tests/cluster/$program"
    done
done
step platform tests 30 env CLDIST_TEST_ANY_DRIVER=1 OCL_ICD_VENDORS="$only/" "$BUILD_DIR/tests/cluster/test_cluster_collectives"
step tests tests 130 "${meson[@]}" test -C "$BUILD_DIR" --no-rebuild --print-errorlogs --num-processes 4
# Kernels of two GPUs wait for each other. Failures would end the job, so test_mpi runs without them.
ordered() {
    local two tests=$BUILD_DIR/tests status=0
    read -ra two <<<"$CLDIST_MPIRUN -n 2"
    "${two[@]}" "$tests/test_device_ordered" || status=1
    "${two[@]}" "$tests/test_device_collectives" || status=1
    "${two[@]}" "$tests/test_mpi" '--test-case=*large*,*intact*,*region*,*exportable*,*in every way*,*bytes*' \
        '--test-case-exclude=*fail*' || status=1
    "${two[@]}" "$tests/test_stress" --messages 2000 || status=1
    "${two[@]}" "$tests/test_stress_collectives" --seconds 4 || status=1
    return $status
}
export -f ordered
if [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')" -ge 2 ]; then
    step ordered tests 90 env CLDIST_PATH=device CLDIST_TEST_DEVICE=gpu bash -c ordered
fi
step auto p2p 60 env CLDIST_BENCH_PATHS=auto bench/run p2p --device gpu --rounds 5 \
    --methods cldist,cldist-event,read-write-pinned,mpi
step exportable p2p 40 env CLDIST_BENCH_PATHS=peer-to-peer bench/run p2p --device gpu --rounds 5 --exportable --methods cldist,cldist-event
step shared p2p 40 env CLDIST_BENCH_PATHS=shared bench/run p2p --device gpu --rounds 5 --methods cldist,cldist-event,mpi
# Two GPUs: measures NCCL, and copies between two devices of one context, natively and on the
# platform.
step nccl p2p 60 python3 bench/nccl.py
context() {
    local elements
    for elements in 65536 4194304 67108864; do
        echo "$((elements / 256)) KiB natively, then on the platform in one process"
        OCL_ICD_VENDORS=$only/ "$BUILD_DIR/bench/cluster_copies" --size $elements --iterations 3 --repeat 3
        "$BUILD_DIR/tools/cldist/cldist" run -n 1 -- "$BUILD_DIR/bench/cluster_copies" --size $elements --iterations 10 --repeat 3
    done
}
export -f context
step context context 60 bash -c context
for size in M L XL; do
    step himeno himeno 60 "${mpirun[@]}" -n 2 "$BUILD_DIR/examples/himeno/himeno" --size $size --iterations 20 --rounds 7 --check
done
step chunked p2p 60 env CLDIST_BENCH_PATHS=chunked bench/run p2p --device gpu --rounds 5
step staged p2p 60 env CLDIST_BENCH_PATHS=staged bench/run p2p --device gpu --rounds 5
step enqueue enqueue 40 bench/run enqueue --device gpu
step enqueue enqueue 40 env CLDIST_PATH=device bench/run enqueue --device gpu
if [ -n "${OUT:-}" ]; then cp "$BUILD_DIR"/bench-results/p2p-{auto,peer-to-peer,shared,chunked,staged}.json "$logs" 2>/dev/null; fi

# ---- The summary -------------------------------------------------------------------------------------------------------

show() { # TITLE LOG PATTERN
    [ -f "$logs/$2.log" ] || return
    printf '\n== %s\n' "$1"
    grep -E "$3" "$logs/$2.log"
}
show devices build '^ +NVIDIA|, driver '
show tests tests '^\[doctest\]|^(ok|FAILED) device|ERROR:|^(Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout): |FAIL|TIMEOUT'
show steps steps '^ +[0-9]|^The|^Threads|^  (rec|The)|failed'
show copies copies '.'
show p2p p2p '^## |^(One way|GB/s|How many)|^\| (size|8 B|1 MiB|16 MiB|64 MiB|256 MiB) |^nccl|^NCCL|wrong|failed'
show context context '.'
show enqueue enqueue '^\||^CPU|failed'
show himeno himeno '.'
printf '\n== steps, %d s in all\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
