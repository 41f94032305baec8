#!/usr/bin/env bash
# Runs a Python program with an interpreter that has the required modules. If there is none, skips
# the test NAME.
#
#   run_python.sh NAME SANITIZERS MPI MODULES PROGRAM [ARGUMENTS...] -- [MPIRUN [ARGUMENTS...]]
#
# All programs need numpy and pyopencl. MODULES are more modules, separated by spaces. Under mpirun, a
# program also needs mpi4py that is built with MPI (openmpi or mpich). MPI4PY_PATH may be a folder
# that contains such an mpi4py:
#   pip install --no-binary mpi4py --target FOLDER mpi4py     with the environment variable MPICC=mpicc.mpich
set -u

name=$1 sanitizers=$2 mpi=$3 modules="numpy pyopencl $4"
shift 4
export PYTHONPATH=${MPI4PY_PATH:+$MPI4PY_PATH:}$PYTHONPATH
program=()
while [ "$1" != -- ]; do program+=("$1"); shift; done
shift
[[ ${1-} != *mpirun* ]] || modules+=" mpi4py"

skip() {
    echo "SKIP: $name: $1"
    exit 77
}

[[ $sanitizers != *address* && $sanitizers != *thread* ]] ||
    skip "a library built with -fsanitize=$sanitizers can't be loaded by a Python that is not"

python=
for candidate in /usr/bin/python3 python3; do
    # shellcheck disable=SC2086
    if "$candidate" -c 'import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]' $modules 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || skip "no python3 has ${modules// /, }"

if [[ $modules = *mpi4py* ]]; then
    vendor=$("$python" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.get_vendor()[0])')
    wanted=$([ "$mpi" = mpich ] && echo MPICH || echo "Open MPI")
    [ "$vendor" = "$wanted" ] || skip "the mpi4py of $python is built with ${vendor:-no MPI that it can load}, not with $wanted"
    # With -m mpi4py, a process that fails ends the job. For pytest, conftest.py does that.
    [ "${program[0]}" = -m ] || program=(-m mpi4py "${program[@]}")
fi
exec "$@" "$python" "${program[@]}"
