#include "api/mpi_boundary.hpp"

#include "mpi_interop/mpi_status.hpp"

namespace cldist {

int call_error_handler(const char *call, MPI_Comm comm, const Status &status) {
    const int code = mpi_code_of(status);
    log_warning("{}: {}: {}", call, status.message, code_text(status.code));
    if (!in_forked_child() && mpi_runs())
        PMPI_Comm_call_errhandler(status.code == CL_INVALID_COMMUNICATOR ? MPI_COMM_WORLD : comm,
                                  code);
    return code;
}

}  // namespace cldist
