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
    std::uint64_t address = 0;  ///< of `secret` in process 0
    std::uint64_t secret = 0;   ///< shows that the process ID is that of process 0
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

}  // namespace

HostMemoryReach::HostMemoryReach(MPI_Comm comm) {
    check_mpi(PMPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
    int count = 0;
    PMPI_Comm_rank(comm_, &self_);
    PMPI_Comm_size(comm_, &count);
    std::random_device random;
    const std::uint64_t secret = (std::uint64_t{random()} << 32U) + random();
    Introduction first{getpid(), reinterpret_cast<std::uint64_t>(&secret), secret};
    check_mpi(PMPI_Bcast(&first, sizeof first, MPI_BYTE, 0, comm_), "MPI_Bcast");
    first_ = first.process;
    char reached = 0;
    if (self_ != 0) {
        std::uint64_t found = 0;
        const int error = copy_piece(static_cast<pid_t>(first_), first.address,
                                     reinterpret_cast<std::byte *>(&found), sizeof found, false);
        reached = error == 0 && found == first.secret ? 1 : 0;
        if (reached == 0)
            log_info("copies between the program's memory and the devices of rank {} use MPI: {}",
                     self_,
                     error == 0 || error == ESRCH ? "it is on another host" : std::strerror(error));
    }
    reached_.resize(static_cast<std::size_t>(count));
    check_mpi(PMPI_Allgather(&reached, 1, MPI_CHAR, reached_.data(), 1, MPI_CHAR, comm_),
              "MPI_Allgather");
}

int HostMemoryReach::copy(std::uint64_t address, std::byte *here, std::size_t size,
                          bool writes) const {
    std::atomic<int> error = 0;
    io_threads().run_in_pieces(size, [&](std::size_t begin, std::size_t end) {
        const int code = copy_piece(static_cast<pid_t>(first_), address + begin, here + begin,
                                    end - begin, writes);
        if (code != 0) error = code;
    });
    return error;
}

}  // namespace cldist::cluster
