#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>

namespace cldist::cluster {

/// Which processes can access the memory of process 0 themselves, by system calls
/// (process_vm_readv). These need the same host, and the permission to trace process 0. All
/// processes know the same.
class HostMemoryReach {
public:
    /// Collective over `comm`, which this class duplicates.
    explicit HostMemoryReach(MPI_Comm comm);

    /// For answers: messages from the receiver of a message to its sender.
    [[nodiscard]] MPI_Comm comm() const { return comm_; }
    [[nodiscard]] int self() const { return self_; }
    /// Whether that process can. False for process 0, which needs no system call.
    [[nodiscard]] bool has(int rank) const { return reached_[static_cast<std::size_t>(rank)] != 0; }

    /// Copies `size` bytes from an address of process 0 to `here`, or if `writes`, the other way.
    /// Uses several threads. Returns 0 or an error number.
    [[nodiscard]] int copy(std::uint64_t address, std::byte *here, std::size_t size,
                           bool writes) const;

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
    int self_ = 0;
    std::int64_t first_ = 0;  ///< number of process 0 in the system
    std::vector<char> reached_;
};

}  // namespace cldist::cluster
