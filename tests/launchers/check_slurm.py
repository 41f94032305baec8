#!/usr/bin/env python3
"""Starts programs with srun, `cldist run` and MPICH's mpiexec in a private Slurm cluster of two hosts.

    check_slurm.py CLDIST openmpi|mpich HIMENO VECTOR-ADDITION

HIMENO uses libcldist. VECTOR-ADDITION is a plain OpenCL program for the cluster platform.
"""

import os
import re
import sys
from pathlib import Path

import private_slurm
from private_slurm import output, run, wait_for

CLDIST, MPI, HIMENO, VECTORS = os.path.abspath(sys.argv[1]), *sys.argv[2:5]
UNWANTED = "OCL_ICD_|OPENCL_VENDOR|HWLOC_COMPONENTS|CLDIST_|OMPI_MCA_|PRTE_MCA_|SLURM_|PMI|PBS_"
OVER = "--mpi=pmix" if MPI == "openmpi" else "--mpi=pmi2"
LIBRARY = [HIMENO, "--size", "XS", "--iterations", "9", "--variant", "chained-k", "--check"]
# The environment that the documents give for srun.
PLATFORM = ["env", f"OCL_ICD_VENDORS={Path(CLDIST).parent}/vendors/", "HWLOC_COMPONENTS=-opencl"]
complaints = []


def expect(holds, what):
    if not holds:
        complaints.append(what)
        print("FAILED:", what, flush=True)


def is_correct(out, devices, times=1):
    return len(re.findall(rf" {devices} devices: .*correct", out)) == times


def check_library():
    for hosts in 1, 2:
        status, out, _ = run("srun", OVER, f"-N{hosts}", "-n2", *LIBRARY)
        expect(status == 0 and "2 processes" in out and "same bits" in out, f"srun starts a library program on {hosts} hosts")


def check_platform():
    status, out, _ = run("srun", OVER, "-N2", "--ntasks-per-node=2", *PLATFORM, VECTORS, "--devices", 4)
    expect(status == 0 and is_correct(out, 4, times=4), "srun starts the cluster platform on two hosts")
    status, _, err = run("srun", "--mpi=none", "-N2", "-n2", *PLATFORM, VECTORS, "--devices", 2)
    expect(status != 0 and err.count("srun has started 2 processes that it did not connect; use srun --mpi=pmix") == 1,
           "without PMI variables, one process reports the missing option")
    status, _, err = run("srun", OVER, "--kill-on-bad-exit=1", "-N2", "-n2", *PLATFORM,
                         "sh", "-c", '[ "$SLURM_PROCID" = 0 ] || exit 3; exec "$@"', "sh", VECTORS, "--devices", 2)
    expect(status not in (0, None) and "task 1: Exited with exit code 3" in err, "a failed process ends the job")


def check_cldist_run():
    # In an allocation, Open MPI and MPICH start their own processes through srun.
    status, out, _ = run("salloc", "-N2", "--ntasks-per-node=2", CLDIST, "run", VECTORS, "--devices", 4)
    expect(status == 0 and is_correct(out, 4), "cldist run starts a process for each task of the allocation")
    status, out, _ = run("salloc", "-N2", "--ntasks-per-node=2", CLDIST, "devices")
    expect(status == 0 and [line.split(":")[0] for line in out.splitlines()] ==
           [f"rank {rank} (host n{rank // 2 + 1})" for rank in range(4)], "the processes are on both hosts")
    status, _, err = run("salloc", "-N2", "--ntasks-per-node=1", CLDIST, "run", "sh", "-c",
                         '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && exec sleep 50; exit 3')
    expect(status == 3 and "cldist run: rank 1 (host n2) exited with status 3" in err, "a failed process is reported")
    status, _, err = run("srun", OVER, "-N2", "-n2", CLDIST, "run", VECTORS, "--devices", 2)
    expect(status == 2 and err.count("cldist run: srun has started it 2 times; start it once") == 2,
           "cldist run under srun gives advice")


def check_batch(folder):
    log = folder / "batch"
    status, _, _ = run("sbatch", "--wait", "-N2", "--ntasks-per-node=1", "-o", log, "--wrap",
                       f"{CLDIST} run {VECTORS} --devices 2")
    text = log.read_text()
    print(text)
    expect(status == 0 and is_correct(text, 2), "cldist run works in a batch job")
    program = "sleep 4000"

    def sleeping():
        return output("pgrep", "-c", "-f", "-x", program).strip()
    run("sbatch", "-N2", "--ntasks-per-node=1", "-o", log, "--wrap", f"exec {CLDIST} run {program}")
    wait_for(lambda: sleeping() == "2", "the programs of a batch job")
    run("scancel", "--user=root")
    wait_for(lambda: output("squeue", "-h") == "", "the end of a cancelled job")
    wait_for(lambda: sleeping() == "0", "the end of a cancelled job's programs")


def check_hydra():
    status, out, _ = run("salloc", "-N2", "--ntasks-per-node=1", "mpiexec.hydra", *LIBRARY)
    expect(status == 0 and "2 processes" in out and "same bits" in out, "mpiexec.hydra starts a library program on two hosts")
    status, out, _ = run("salloc", "-N2", "--ntasks-per-node=1", "mpiexec.hydra", *PLATFORM, VECTORS, "--devices", 2)
    expect(status == 0 and is_correct(out, 2, times=2), "mpiexec.hydra starts the cluster platform on two hosts")


def main():
    private_slurm.enter()
    for name in [name for name in os.environ if re.match(UNWANTED, name)]:
        del os.environ[name]
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1",
                      POCL_MAX_PTHREAD_COUNT="1")
    with private_slurm.cluster() as folder:
        if OVER.split("=")[1] not in output("srun", "--mpi=list"):
            private_slurm.skip(f"this Slurm does not support {OVER}")
        check_library()
        check_platform()
        check_cldist_run()
        check_batch(folder)
        if MPI == "mpich":
            check_hydra()
    return bool(complaints)


sys.exit(main())
