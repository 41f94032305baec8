#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>

namespace cldist::cluster {

/// Direct access to the memory of other processes on the same machine by system calls
/// (process_vm_readv). It requires permission to trace them. All processes know who has access.
class HostMemoryReach {
public:
    /// Collective over `comm`, which it duplicates. `host`: its processes on this machine. Copies
    /// of fewer than `least` bytes cost less as messages.
    HostMemoryReach(MPI_Comm comm, MPI_Comm host, std::size_t least);

    /// The communicator for messages from the receiver of a message to its sender.
    [[nodiscard]] MPI_Comm comm() const { return comm_; }
    /// Returns true if this process and the other one copy `size` bytes directly. The result is the
    /// same in both.
    [[nodiscard]] bool has(int rank, std::size_t size) const {
        const int host = others_[static_cast<std::size_t>(rank)].host;
        return size >= least_ && rank != self_ && host >= 0 &&
               host == others_[static_cast<std::size_t>(self_)].host;
    }

    /// Copies `size` bytes from `address` in the other process to `here`, or in the other direction
    /// if `writes`. Blocks, and uses several threads. Returns 0 or an errno value.
    [[nodiscard]] int copy(int rank, std::uint64_t address, std::byte *here, std::size_t size,
                           bool writes) const;
    /// The same on the calling thread only.
    [[nodiscard]] int copy_alone(int rank, std::uint64_t address, std::byte *here, std::size_t size,
                                 bool writes) const;

private:
    struct Other {
        std::int64_t process;  ///< process ID
        int host;              ///< the lowest rank of the machine; negative without access
    };

    MPI_Comm comm_ = MPI_COMM_NULL;
    int self_ = 0;
    const std::size_t least_;
    std::vector<Other> others_;  ///< by rank, with this process
};

}  // namespace cldist::cluster
