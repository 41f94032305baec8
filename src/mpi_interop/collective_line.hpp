#pragma once

#include <mpi.h>

#include "base/line.hpp"
#include "pipeline/endpoint.hpp"

namespace cldist {

/// The library's own duplicate of a communicator, and the line of the collective commands on it: the first makes its MPI
/// calls, then leaves, so that all processes make them in the order in which the commands were enqueued.
class CollectiveLine : public Line {
public:
    /// Begins the duplicate: collective over `comm`, but nobody is waited for. Throws an Error.
    explicit CollectiveLine(MPI_Comm comm);

    /// Whether the duplicate could be made; nothing while others are waited for. For who is first.
    Outcome ready();
    /// Once ready() said so.
    [[nodiscard]] MPI_Comm comm() const { return copy_; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    /// Frees the duplicate. Collective. None of the commands may be left.
    void free();

private:
    MPI_Comm copy_ = MPI_COMM_NULL;
    MPI_Request duplicating_ = MPI_REQUEST_NULL;
    Outcome made_;
    int rank_ = 0;
    int size_ = 0;
};

}  // namespace cldist
