#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>

namespace cldist::cluster {

/// Direct access to the memory of process 0 by system calls (process_vm_readv). It requires the
/// same host, and permission to trace process 0. Every process knows which processes have access.
class HostMemoryReach {
public:
    /// Collective over `comm`, which it duplicates.
    explicit HostMemoryReach(MPI_Comm comm);

    /// The communicator for messages from the receiver of a message to its sender.
    [[nodiscard]] MPI_Comm comm() const { return comm_; }
    [[nodiscard]] int self() const { return self_; }
    /// Returns true if the process has access. False for process 0, which needs no system call.
    [[nodiscard]] bool has(int rank) const { return reached_[static_cast<std::size_t>(rank)] != 0; }

    /// Copies `size` bytes from `address` in process 0 to `here`, or in the other direction if
    /// `writes`. Blocks, and uses several threads. Returns 0 or an errno value.
    [[nodiscard]] int copy(std::uint64_t address, std::byte *here, std::size_t size,
                           bool writes) const;

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
    int self_ = 0;
    std::int64_t first_ = 0;     ///< the process ID of process 0
    std::vector<char> reached_;  ///< by rank
};

}  // namespace cldist::cluster
