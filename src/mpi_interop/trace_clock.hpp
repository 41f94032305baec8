#pragma once

#include <mpi.h>

namespace cldist {

/// Measures the offsets between the ranks' clocks for the trace, at the start and at the end of the
/// job, if CLDIST_TRACE is set for all ranks.
class TraceClock {
public:
    /// Collective over MPI_COMM_WORLD. Throws an Error.
    TraceClock();
    TraceClock(const TraceClock &) = delete;
    TraceClock &operator=(const TraceClock &) = delete;
    ~TraceClock() = default;

    /// Measures again and ends. Collective over MPI_COMM_WORLD.
    void finish();

private:
    void measure() const;

    MPI_Comm comm_ = MPI_COMM_NULL;  ///< null if nothing is measured
};

}  // namespace cldist
