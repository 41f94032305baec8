# shellcheck shell=bash
# Two hosts for a test; this file is sourced. The hosts are network namespaces that a script named
# `netlab` creates: $CLDIST_NETLAB, or ../shared/netlab/netlab next to the project. They are removed
# at the end of the test.

skip() {
    echo "SKIP: network: $1"
    exit 77
}

make_lab() { # PROJECT_ROOT NETLAB-UP-OPTIONS...: sets netlab, on_both_hosts
    netlab=${CLDIST_NETLAB:-$1/../shared/netlab/netlab}
    shift
    [ -x "$netlab" ] || skip "no netlab script (CLDIST_NETLAB)"
    [ "$(id -u)" = 0 ] || skip "needs root"
    local tool output
    for tool in ip unshare nsenter; do
        command -v "$tool" >/dev/null || skip "needs $tool (iproute2, util-linux)"
    done
    for tool in tc iptables; do
        command -v "$tool" >/dev/null || skip "needs $tool (iproute2, iptables)"
    done
    mpirun --version 2>/dev/null | grep -q 'Open MPI.* 4\.' || skip "needs Open MPI 4"

    # a separate lab; its name is part of interface names, which are short
    export NETLAB_NAME=c$(($$ % 100000))n
    trap 'timeout 60 "$netlab" down >/dev/null 2>&1' EXIT
    trap 'exit 130' INT TERM

    # Many containers do not allow network namespaces.
    if ! output=$(timeout 120 "$netlab" up 2 --no-check "$@" 2>&1); then
        echo "$output"
        skip "netlab could not make its hosts"
    fi
    echo "$output"

    # For `cldist run` on the first host: one process on each host.
    on_both_hosts=(--hosts "10.77.0.1,10.77.0.2")
    local argument
    for argument in --mca plm rsh --mca plm_rsh_agent "/run/netlab/$NETLAB_NAME/launch" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include 10.77.0.0/24 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca pml ob1 \
        --mca orte_leave_session_attached 1; do
        on_both_hosts+=("--mpirun-option=$argument")
    done
}

# For a job in the background: $job is its process ID, $log its output file in $folder.
fail() {
    "$netlab" heal 1 >/dev/null 2>&1
    cat "$log"
    echo "FAILED: $1"
    wait "$job"
    rm -rf "$folder"
    exit 1
}
await() { # SECONDS WHAT COMMAND...: polls until the command succeeds
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        kill -0 "$job" 2>/dev/null || fail "the job ended before $what"
        [ "$SECONDS" -lt "$until" ] || fail "no sign of $what"
        sleep 0.1
    done
}
