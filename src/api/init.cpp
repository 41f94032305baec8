#include "api/init.hpp"

#include "api/boundary.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist {
namespace {

// Creates the Runtime, unless init_thread_below_tool() has done so when a tool called PMPI_Init.
int begin_after(int code) {
    if (code == MPI_SUCCESS && !Runtime::requested_level())
        at_boundary("MPI_Init", [] {
            Runtime::note_requested_level();
            Runtime::begin();
        });
    return code;
}

int init(int *argc, char ***argv, int *provided) {
    if (init_of_tool == nullptr)
        return init_thread_below_tool(argc, argv, MPI_THREAD_MULTIPLE, provided);
    return begin_after(init_of_tool(argc, argv, MPI_THREAD_MULTIPLE, provided));
}

}  // namespace

InitThread *init_of_tool = nullptr;

int init_thread_below_tool(int *argc, char ***argv, int, int *provided) {
    return begin_after(PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, provided));
}

int init_below_tool(int *argc, char ***argv) {
    int provided = MPI_THREAD_SINGLE;
    return init_thread_below_tool(argc, argv, MPI_THREAD_MULTIPLE, &provided);
}

}  // namespace cldist

using namespace cldist;

extern "C" {

int MPI_Init(int *argc, char ***argv) {
    int provided = MPI_THREAD_SINGLE;
    return init(argc, argv, &provided);
}

int MPI_Init_thread(int *argc, char ***argv, int, int *provided) {
    return init(argc, argv, provided);
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
