#include "cluster/world/mpi_job.hpp"

#include <cstdlib>

#include "cluster/calls/opencl_call.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

bool program_has_mpi = false;  // the program initialised MPI
bool finalizing = false;       // the program has called MPI_Finalize

MPI_Comm join_mpi() {
    // Otherwise hwloc, in MPI, would query this platform for its devices, which are not yet known.
    setenv("HWLOC_COMPONENTS", "-opencl", 0);
    int initialized = 0;
    PMPI_Initialized(&initialized);
    if (initialized == 0) {
        if (auto *const note = host_function<void()>("cldist_host_note_mpi"); note != nullptr)
            note();
        int provided = MPI_THREAD_SINGLE;
        check_mpi(PMPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
                  "MPI_Init_thread");
    }
    program_has_mpi = initialized != 0;
    Runtime::begin();
    return MPI_COMM_WORLD;
}

}  // namespace

MpiJob::MpiJob()
    : agreement_(join_mpi()),
      comm_(duplicate(MPI_COMM_WORLD)),
      transport_(Runtime::current(), comm_) {}

// Collective. The place is that of this process. The lowest rank of a host identifies the host.
Job::Place MpiJob::place_of(Process) const {
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type");
    const int number = rank_in(host);
    const int count = processes_in(host);
    int first = static_cast<int>(agreement_.self());
    check_mpi(PMPI_Bcast(&first, 1, MPI_INT, 0, host), "MPI_Bcast");
    PMPI_Comm_free(&host);
    return {static_cast<std::uint32_t>(first), static_cast<std::size_t>(number),
            static_cast<std::size_t>(count)};
}

void MpiJob::compare(CallLog &calls) {
    static const auto has_answers = host_function<int()>("cldist_host_has_session");
    const bool answered = has_answers != nullptr && has_answers() != 0;
    watch_ = std::make_unique<DivergenceWatch>(comm_, calls,
                                               program_has_mpi ? Start::own_mpi
                                               : answered      ? Start::with_answers
                                                               : Start::without_answers);
    // MPI moves smaller results as fast.
    transport_.reach_host_memory(std::size_t{1} << 20U);
}

void MpiJob::end() {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized == 0 && !finalizing) PMPI_Finalize();
}

// MPI_Finalize first deletes the attributes of MPI_COMM_SELF, the most recently set one first.
void MpiJob::call_at_finalize(void (*end)()) {
    if (!program_has_mpi) return;
    int key = MPI_KEYVAL_INVALID;
    const auto at_finalize = [](MPI_Comm, int, void *function, void *) {
        finalizing = true;
        (*static_cast<void (**)()>(function))();
        return MPI_SUCCESS;
    };
    static void (*function)() = end;
    check_mpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, nullptr),
              "MPI_Comm_create_keyval");
    check_mpi(PMPI_Comm_set_attr(MPI_COMM_SELF, key, &function), "MPI_Comm_set_attr");
}

}  // namespace cldist::cluster
