#!/bin/bash
# Runs two jobs, one of which accepts and the other connects. Open MPI 4 joins jobs of different
# mpiruns through a name server, which this script starts.
#
#   two_jobs.sh PROGRAM ACCEPT-WORD CONNECT-WORD MPIRUN ARGUMENTS...
set -u

program=$1
accepts=$2
connects=$3
shift 3

command -v ompi-server >/dev/null || { echo "SKIP: two jobs: needs ompi-server (openmpi-bin)"; exit 77; }
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT

ompi-server --no-daemonize -r "$folder/server" &
server=$!
until [ -s "$folder/server" ]; do
    kill -0 "$server" 2>/dev/null || { echo "FAILED: ompi-server has ended" >&2; exit 1; }
    sleep 0.05
done

"$@" --ompi-server "file:$folder/server" "$program" "$accepts" "$folder/port" &
accepting=$!
"$@" --ompi-server "file:$folder/server" "$program" "$connects" "$folder/port" &
connecting=$!
echo "launchers: $accepting $connecting" >&2  # for run_and_check.py
trap 'kill "$accepting" "$connecting" 2>/dev/null; exit 1' TERM INT
wait "$accepting"
accepted=$?
wait "$connecting"
connected=$?
echo "the accepting job ended with $accepted, the connecting job with $connected" >&2
