// MPI calls that give hints to a communicator, and MPI_Comm_free. MPI implementations drop unknown
// hints, so the library stores its own hint when it wraps these calls.

#include <optional>

#include "api/boundary.hpp"
#include "mpi_interop/runtime.hpp"
#include "mpi_interop/wire_choice.hpp"

using namespace cldist;

namespace {

void take_hints(MPI_Comm comm, MPI_Info info) {
    const std::optional<Wire> wire = wire_in(info);
    if (!wire) return;
    set_wire(comm, *wire);
    if (const auto runtime = Runtime::find()) runtime->communicators().note_wire(comm, *wire);
}

// `duplicate` calls MPI.
template <typename Duplicate>
int duplicate_with_hints(const char *call, MPI_Comm comm, MPI_Info info, Duplicate duplicate) {
    std::optional<WireOfDuplicates> wire;
    if (comm != MPI_COMM_NULL) at_boundary(call, [&] { wire.emplace(comm, info); });
    return duplicate();
}

}  // namespace

extern "C" {

int MPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
    const int code = PMPI_Comm_set_info(comm, info);
    if (code == MPI_SUCCESS) at_boundary("MPI_Comm_set_info", [&] { take_hints(comm, info); });
    return code;
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm) {
    return duplicate_with_hints("MPI_Comm_dup_with_info", comm, info,
                                [&] { return PMPI_Comm_dup_with_info(comm, info, newcomm); });
}

// MPI keeps a communicator until its operations end, but it does not know the library's pending
// receives, so the library may free it later.
int MPI_Comm_free(MPI_Comm *comm) {
    bool later = false;
    if (comm != nullptr && !in_forked_child())
        at_boundary("MPI_Comm_free", [&] {
            const auto runtime = Runtime::find();
            later = runtime != nullptr && runtime->communicators().free_later(*comm);
        });
    if (!later) return PMPI_Comm_free(comm);
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

#if MPI_VERSION >= 4
int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request) {
    return duplicate_with_hints("MPI_Comm_idup_with_info", comm, info, [&] {
        return PMPI_Comm_idup_with_info(comm, info, newcomm, request);
    });
}
#endif

}  // extern "C"
