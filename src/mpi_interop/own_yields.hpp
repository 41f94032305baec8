#pragma once

#include <mpi.h>

namespace cldist {

/// While an object exists, MPI calls that find nothing do not yield the CPU. Open MPI yields with
/// `mpi_yield_when_idle`. The polling loop yields instead: it measures the cost of a yield
/// (Backoff) and yields once per round. Other MPI libraries are not affected.
class OwnYields {
public:
    OwnYields() {
        if (switch_ != nullptr) switch_(false);
    }
    OwnYields(const OwnYields &) = delete;
    OwnYields &operator=(const OwnYields &) = delete;
    ~OwnYields() {
        if (switch_ != nullptr) switch_(true);
    }

    /// Detects whether MPI yields. Call it when MPI is initialised.
    static void begin();

private:
    using Switch = bool (*)(bool);
    static Switch switch_;  ///< null if MPI does not yield, or if this is unknown
};

/// MPI_Test that does not yield the CPU.
inline int test_without_yield(MPI_Request &request, int &done,
                              MPI_Status *status = MPI_STATUS_IGNORE) {
    const OwnYields own_yields;
    return PMPI_Test(&request, &done, status);
}

}  // namespace cldist
