#include "cluster/world/mpi_job.hpp"

#include <cstdlib>

#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

MPI_Comm join_mpi() {
    // hwloc, in MPI, would ask this platform for its devices, which are not known yet.
    setenv("HWLOC_COMPONENTS", "-opencl", 0);
    int initialized = 0;
    PMPI_Initialized(&initialized);
    if (initialized == 0) {
        int provided = MPI_THREAD_SINGLE;
        check_mpi(PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
    Runtime::begin();
    return MPI_COMM_WORLD;
}

}  // namespace

MpiJob::MpiJob() : agreement_(join_mpi()), comm_(duplicate(MPI_COMM_WORLD)), transport_(Runtime::current(), comm_) {}

// Of this process; the first one's rank names the host.
Job::Place MpiJob::place_of(Process) const {
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type");
    int number = 0;
    int count = 1;
    int first = static_cast<int>(agreement_.self());
    PMPI_Comm_rank(host, &number);
    PMPI_Comm_size(host, &count);
    check_mpi(PMPI_Bcast(&first, 1, MPI_INT, 0, host), "MPI_Bcast");
    PMPI_Comm_free(&host);
    return {static_cast<std::uint32_t>(first), static_cast<std::size_t>(number), static_cast<std::size_t>(count)};
}

void MpiJob::end() {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized == 0) PMPI_Finalize();
}

}  // namespace cldist::cluster
