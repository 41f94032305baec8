#include "mpi_interop/collective_line.hpp"

#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist {

CollectiveLine::CollectiveLine(MPI_Comm comm) {
    PMPI_Comm_rank(comm, &rank_);
    PMPI_Comm_size(comm, &size_);
    check_mpi(PMPI_Comm_idup(comm, &copy_, &duplicating_), "MPI_Comm_idup");
}

Outcome CollectiveLine::ready() {
    if (made_) return made_;
    int done = 0;
    int code = MPI_SUCCESS;
    {
        const OwnYields own_yields;
        code = PMPI_Test(&duplicating_, &done, MPI_STATUS_IGNORE);
    }
    if (code != MPI_SUCCESS) return made_ = mpi_failure(code, "MPI_Comm_idup");
    if (done == 0) return std::nullopt;
    PMPI_Comm_set_errhandler(copy_, MPI_ERRORS_RETURN);
    return made_ = Status{};
}

void CollectiveLine::free() {
    if (made_ && made_->ok()) PMPI_Comm_free(&copy_);
}

}  // namespace cldist
