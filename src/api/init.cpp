#include "api/boundary.hpp"
#include "mpi_interop/runtime.hpp"

using namespace cldist;

namespace {

void begin_or_complain(const char *call) {
    at_boundary(call, [] { Runtime::begin(); });
}

}  // namespace

extern "C" {

int MPI_Init(int *argc, char ***argv) {
    int provided = MPI_THREAD_SINGLE;
    const int code = PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    if (code == MPI_SUCCESS) begin_or_complain("MPI_Init");
    return code;
}

int MPI_Init_thread(int *argc, char ***argv, int, int *provided) {
    const int code = PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, provided);
    if (code == MPI_SUCCESS) begin_or_complain("MPI_Init_thread");
    return code;
}

cl_int clDistInit(MPI_Comm comm) {
    return at_boundary("clDistInit", [&] {
        Runtime::check_mpi_runs();
        Runtime::check_thread_level();
        Communicators::check(comm);
        Runtime::begin();
        Runtime::current()->communicators().add_foreign(comm);
    });
}

}  // extern "C"
