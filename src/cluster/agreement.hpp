#pragma once

#include <vector>

#include <mpi.h>

#include "cluster/packing.hpp"
#include "cluster/topology.hpp"

namespace cldist::cluster {

/// What processes tell each other at one place of the program: all call the same function, in the same order, and wait
/// for those who are late. One thread at a time. Throws an Error if MPI fails.
class Agreement {
public:
    /// Duplicates the communicator; collective.
    explicit Agreement(MPI_Comm comm);
    Agreement(const Agreement &) = delete;
    Agreement &operator=(const Agreement &) = delete;

    [[nodiscard]] Process self() const { return self_; }
    [[nodiscard]] Process processes() const { return processes_; }
    [[nodiscard]] bool alone() const { return processes_ == 1; }

    /// What `root` has; `mine` is ignored elsewhere.
    Blob from(Process root, Blob mine);
    /// What each has, by process.
    std::vector<Blob> of_all(const Blob &mine);
    /// The least of all.
    int least(int mine);

    /// Collective; before MPI_Finalize.
    void end();

private:
    void wait(MPI_Request request) const;

    MPI_Comm comm_ = MPI_COMM_NULL;
    Process self_ = 0;
    Process processes_ = 1;
};

}  // namespace cldist::cluster
