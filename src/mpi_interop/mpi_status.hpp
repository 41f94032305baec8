#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "base/status.hpp"

namespace cldist {

/// Returns true between the initialisation and the end of MPI.
bool mpi_runs();

inline Status mpi_failure(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    PMPI_Error_string(code, text, &length);
    Status status = Status::failure(CL_MPI_ERROR,
                                    fmt::format("{} failed: {}", call, std::string(text, length)));
    status.mpi_error = code;
    return status;
}

/// Throws an Error with the name of the call if `code` is not MPI_SUCCESS.
inline void check_mpi(int code, const char *call) {
    if (code != MPI_SUCCESS) throw Error(mpi_failure(code, call));
}

/// This process's rank in a valid communicator, and the number of its processes.
inline int rank_in(MPI_Comm comm) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}
inline int processes_in(MPI_Comm comm) {
    int size = 1;
    PMPI_Comm_size(comm, &size);
    return size;
}

/// Duplicates `comm` for the library's messages. Calls on the duplicate return errors instead of
/// ending the program. Throws an Error. Collective like MPI_Comm_dup.
inline MPI_Comm duplicate(MPI_Comm comm) {
    MPI_Comm copy = MPI_COMM_NULL;
    check_mpi(PMPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
    PMPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    return copy;
}

/// Returns true for a datatype that MPI defines.
inline bool is_predefined(MPI_Datatype type) {
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

/// The largest message tag.
inline int max_tag_of(MPI_Comm comm) {
    void *value = nullptr;
    int found = 0;
    PMPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &found);
    return found != 0 ? *static_cast<int *>(value) : 32767;
}

/// The texts of all processes, in the order of their ranks. Throws an Error. Collective.
[[nodiscard]] std::vector<std::string> gather_texts(const std::string &text, MPI_Comm comm);

/// The error code that an MPI call with MPI_CL_MEM returns for `status`.
int mpi_code_of(const Status &status);

/// Sets the members that MPI_Recv sets. MPI_ERROR is unchanged.
void set_status(MPI_Status &status, int source, int tag, MPI_Count bytes);

/// The bytes of a message, which may exceed int.
[[nodiscard]] inline std::size_t bytes_of(const MPI_Status &status) {
    MPI_Count bytes = 0;
    PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    return static_cast<std::size_t>(bytes);
}

}  // namespace cldist
