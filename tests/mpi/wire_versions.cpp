/// Processes whose libraries have different wire versions report that at the start. This program
/// defines its own PMPI_Allreduce, which the library calls instead of MPI's. On rank 1, the call
/// takes part as a library with the next wire version would.

#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include <CL/cl_ext_dist.h>

extern "C" int PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm) {
    using Allreduce = int (*)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    static const auto real = reinterpret_cast<Allreduce>(dlsym(RTLD_NEXT, "PMPI_Allreduce"));
    static bool first = true;
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1 && first && from == MPI_IN_PLACE && count == 2 && type == MPI_INT) {
        int *const bounds = static_cast<int *>(to);
        if (bounds[0] <= 0 || bounds[0] != -bounds[1]) std::abort();
        ++bounds[0];
        --bounds[1];
    }
    first = false;
    return real(from, to, count, type, op, comm);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    // Neither call waits for the other processes.
    const cl_int begun = clDistInit(MPI_COMM_WORLD);
    const cl_int begun_again = clDistInit(MPI_COMM_WORLD);
    MPI_Finalize();
    const bool refused = begun == CL_INVALID_OPERATION && begun_again == CL_INVALID_OPERATION;
    if (!refused) std::printf("clDistInit returned %d and %d\n", begun, begun_again);
    return refused ? EXIT_SUCCESS : EXIT_FAILURE;
}
