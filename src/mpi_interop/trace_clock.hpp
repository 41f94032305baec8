#pragma once

#include <mpi.h>

namespace cldist {

/// Measures, for the trace, how far the clocks of the ranks are apart: at the start and at the end of the job, if
/// CLDIST_TRACE is set for all of them.
class TraceClock {
public:
    /// Collective over MPI_COMM_WORLD. Throws an Error.
    TraceClock();
    TraceClock(const TraceClock &) = delete;
    TraceClock &operator=(const TraceClock &) = delete;
    ~TraceClock() = default;

    /// Measures again, and does not work any more. Collective over MPI_COMM_WORLD.
    void finish();

private:
    void measure() const;

    MPI_Comm comm_ = MPI_COMM_NULL;  ///< null if nothing is to be measured
};

}  // namespace cldist
