#include "mpi_interop/mpi_status.hpp"

#include <numeric>

namespace cldist {
namespace {

// The MPI error code for a failed peer, which the library adds to MPI at the first use. Open MPI
// reports the added class only for a code of the class.
int peer_failed_code() {
    static const int made = [] {
        constexpr const char *text = "cldist: the wait list or the device of the peer failed";
        int error_class = MPI_ERR_OTHER;
        int code = MPI_ERR_OTHER;
        if (PMPI_Add_error_class(&error_class) != MPI_SUCCESS) return code;
        PMPI_Add_error_string(error_class, text);
        if (PMPI_Add_error_code(error_class, &code) == MPI_SUCCESS)
            PMPI_Add_error_string(code, text);
        return code;
    }();
    return made;
}

}  // namespace

bool mpi_runs() {
    int initialized = 0;
    int finalized = 0;
    PMPI_Initialized(&initialized);
    PMPI_Finalized(&finalized);
    return initialized != 0 && finalized == 0;
}

std::vector<std::string> gather_texts(const std::string &text, MPI_Comm comm) {
    const int length = static_cast<int>(text.size());
    std::vector<int> lengths(static_cast<std::size_t>(processes_in(comm)));
    check_mpi(PMPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm),
              "MPI_Allgather");
    std::vector<int> starts(lengths.size());
    std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
    std::string all(static_cast<std::size_t>(starts.back() + lengths.back()), '\0');
    check_mpi(PMPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(),
                              starts.data(), MPI_CHAR, comm),
              "MPI_Allgatherv");
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < lengths.size(); ++i)
        texts.push_back(
            all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
    return texts;
}

int mpi_code_of(const Status &status) {
    if (status.mpi_error != MPI_SUCCESS) return status.mpi_error;
    switch (status.code) {
        case CL_SUCCESS: return MPI_SUCCESS;
        case CL_INVALID_COMMUNICATOR: return MPI_ERR_COMM;
        case CL_INVALID_RANK: return MPI_ERR_RANK;
        case CL_INVALID_TAG: return MPI_ERR_TAG;
        case CL_MESSAGE_TRUNCATED: return MPI_ERR_TRUNCATE;
        case CL_PEER_TRANSFER_FAILED: return peer_failed_code();
        case CL_OUT_OF_HOST_MEMORY: return MPI_ERR_NO_MEM;
        // MPI_CL_MEM is not the sender's datatype, or the library is not ready.
        case CL_MESSAGE_NOT_RECOGNIZED:
        case CL_MPI_NOT_INITIALIZED:
        case CL_MPI_THREAD_LEVEL_TOO_LOW: return MPI_ERR_TYPE;
        default: return MPI_ERR_OTHER;
    }
}

void set_status(MPI_Status &status, int source, int tag, MPI_Count bytes) {
    status.MPI_SOURCE = source;
    status.MPI_TAG = tag;
    PMPI_Status_set_elements_x(&status, MPI_BYTE, bytes);
    PMPI_Status_set_cancelled(&status, 0);
}

}  // namespace cldist
