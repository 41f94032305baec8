#include "cluster/world/host_memory_reach.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "pipeline/file_endpoint.hpp"

namespace cldist::cluster {
namespace {

struct Introduction {
    std::int64_t process = 0;   ///< process ID
    std::uint64_t address = 0;  ///< of `secret` in the process
    std::uint64_t secret = 0;   ///< shows that the process ID is that of the process
};

/// Returns 0 or an errno value.
int copy_piece(pid_t process, std::uint64_t address, std::byte *here, std::size_t size,
               bool writes) {
    while (size != 0) {
        const iovec own{here, size};
        const iovec other{reinterpret_cast<void *>(address), size};
        const ssize_t moved = writes ? process_vm_writev(process, &own, 1, &other, 1, 0)
                                     : process_vm_readv(process, &own, 1, &other, 1, 0);
        if (moved <= 0) return moved < 0 ? errno : EFAULT;
        here += moved;
        address += static_cast<std::uint64_t>(moved);
        size -= static_cast<std::size_t>(moved);
    }
    return 0;
}

/// Returns 0, or why this process cannot read the other's memory.
int error_of_access(const Introduction &other) {
    std::uint64_t found = 0;
    const int error = copy_piece(static_cast<pid_t>(other.process), other.address,
                                 reinterpret_cast<std::byte *>(&found), sizeof found, false);
    return error == 0 && found != other.secret ? ESRCH : error;
}

}  // namespace

HostMemoryReach::HostMemoryReach(MPI_Comm comm, MPI_Comm host, std::size_t least) : least_(least) {
    check_mpi(PMPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
    self_ = rank_in(comm_);
    std::random_device random;
    const std::uint64_t secret = (std::uint64_t{random()} << 32U) + random();
    const Introduction mine{getpid(), reinterpret_cast<std::uint64_t>(&secret), secret};
    std::vector<Introduction> all(static_cast<std::size_t>(processes_in(host)));
    check_mpi(PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, host),
              "MPI_Allgather");
    int error = 0;
    for (const Introduction &other : all)
        if (error == 0) error = error_of_access(other);
    if (error != 0)
        log_info("copies between the memory of rank {} and of others use MPI: {}", self_,
                 std::strerror(error));
    const int wish = error == 0 ? self_ : -1;
    Other self{mine.process, 0};
    check_mpi(PMPI_Allreduce(&wish, &self.host, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
    others_.resize(static_cast<std::size_t>(processes_in(comm_)));
    check_mpi(
        PMPI_Allgather(&self, sizeof self, MPI_BYTE, others_.data(), sizeof self, MPI_BYTE, comm_),
        "MPI_Allgather");
}

int HostMemoryReach::copy(int rank, std::uint64_t address, std::byte *here, std::size_t size,
                          bool writes) const {
    std::atomic<int> error = 0;
    io_threads().run_in_pieces(size, [&](std::size_t begin, std::size_t end) {
        const int code = copy_alone(rank, address + begin, here + begin, end - begin, writes);
        if (code != 0) error = code;
    });
    return error;
}

int HostMemoryReach::copy_alone(int rank, std::uint64_t address, std::byte *here, std::size_t size,
                                bool writes) const {
    const auto process = static_cast<pid_t>(others_[static_cast<std::size_t>(rank)].process);
    return copy_piece(process, address, here, size, writes);
}

}  // namespace cldist::cluster
