#!/usr/bin/env bash
# Runs a Python program as an MPI job, with a Python that has the packages that examples/python
# needs. Skipped if there is no such Python.
#
#   run_python.sh NAME SANITIZERS PROGRAM [ARGUMENTS...] -- MPIRUN [ARGUMENTS...]
set -u

name=$1 sanitizers=$2
shift 2
program=()
while [ "$1" != -- ]; do program+=("$1"); shift; done
shift

skip() {
    echo "SKIP: $name: $1"
    exit 77
}

[[ $sanitizers != *address* && $sanitizers != *thread* ]] ||
    skip "a library built with -fsanitize=$sanitizers can't be loaded by a Python that is not"

python=
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import mpi4py, numpy, pyopencl' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || skip "no python3 has mpi4py, numpy and pyopencl"

vendor=$("$python" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.get_vendor()[0])')
[ "$vendor" = "Open MPI" ] || skip "the mpi4py of $python is built with ${vendor:-no MPI that it can load}, not with Open MPI"

# With -m mpi4py, a process that fails ends the others instead of leaving them waiting.
exec "$@" "$python" -m mpi4py "${program[@]}"
