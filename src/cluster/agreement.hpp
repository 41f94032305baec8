#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mpi.h>

#include "cluster/packing.hpp"
#include "cluster/topology.hpp"

namespace cldist::cluster {

/// What processes tell each other at one place of the program: all call the same function, in the same order, and wait
/// for those who are late. One thread at a time, but for tell(). Throws an Error if MPI fails.
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

    /// A number that names the place of the program. In the same order in all processes.
    using Turn = std::uint64_t;
    [[nodiscard]] Turn next_turn() { return ++turn_; }
    /// Brings `data` from `root` to all others, which have room for as many bytes, at the same turn. Any threads at once:
    /// who waits for a device before it tells of it must not keep others from what the device waits for.
    void tell(Process root, std::span<std::byte> data, Turn turn) const;

    /// Collective; before MPI_Finalize.
    void end();

private:
    void wait(MPI_Request request) const;

    MPI_Comm comm_;
    const int max_tag_;
    Process self_ = 0;
    Process processes_ = 1;
    Turn turn_ = 0;
};

}  // namespace cldist::cluster
