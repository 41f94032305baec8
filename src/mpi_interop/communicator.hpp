#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.hpp"
#include "mpi_interop/channels.hpp"
#include "mpi_interop/collective_line.hpp"
#include "mpi_interop/host_links.hpp"
#include "mpi_interop/wire_choice.hpp"

namespace cldist {

/// What the library knows of a user's communicator. Shared by all transfers on it; outlives its being freed.
class Communicator {
public:
    /// `block_comm` is where the blocks of large messages go; `block_ranks` translates ranks for it (of the remote group,
    /// for an inter-communicator), MPI_UNDEFINED for a process that it does not reach.
    /// `collectives` has the same ranks, and a communicator for the messages of collectives.
    Communicator(MPI_Comm handle, MPI_Comm block_comm, std::vector<int> block_ranks, std::vector<int> world_ranks,
                 std::vector<int> host_ranks, std::shared_ptr<HostLinks> links = {}, CollectiveRoutes routes = {})
        : handle_(handle),
          block_comm_(block_comm),
          block_ranks_(std::move(block_ranks)),
          world_ranks_(std::move(world_ranks)),
          host_ranks_(std::move(host_ranks)),
          links_(std::move(links)),
          routes_(std::move(routes)) {}
    Communicator(const Communicator &) = delete;
    Communicator &operator=(const Communicator &) = delete;
    ~Communicator();

    [[nodiscard]] std::shared_ptr<Communicator> with_blocks_on(MPI_Comm block_comm, CollectiveRoutes routes) const;

    [[nodiscard]] MPI_Comm handle() const { return handle_; }
    [[nodiscard]] int peers() const { return static_cast<int>(block_ranks_.size()); }
    [[nodiscard]] MPI_Comm block_comm() const { return block_comm_; }
    [[nodiscard]] int block_rank(int rank) const { return block_ranks_[static_cast<std::size_t>(rank)]; }
    /// The rank in MPI_COMM_WORLD, or MPI_UNDEFINED.
    [[nodiscard]] int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
    /// Whether the process is on this host.
    [[nodiscard]] bool same_host(int rank) const {
        return host_ranks_[static_cast<std::size_t>(rank)] != MPI_UNDEFINED;
    }
    /// Rings to and from processes of this host, by their ranks in MPI_COMM_WORLD.
    [[nodiscard]] HostLinks &links() const { return *links_; }
    /// Whether block_comm() reaches every process.
    [[nodiscard]] bool complete() const;

    /// For commands enqueued from now on.
    [[nodiscard]] Wire wire() const { return wire_; }
    void note_wire(Wire wire) { wire_ = wire; }

    /// The FIFO of its collective commands. The first call is collective over the communicator, an intra-communicator, but
    /// does not wait for other processes. Throws an Error.
    std::shared_ptr<CollectiveLine> collectives() const;
    /// The same; null if there was no collective command.
    std::shared_ptr<CollectiveLine> known_collectives() const;

    [[nodiscard]] bool freed() const { return freed_; }
    /// It is being freed, by a collective call.
    void note_freed() { freed_ = true; }
    /// The program has freed it; MPI frees it with the last operation on it.
    void free_with_last_use() { freed_last_ = true; }
    [[nodiscard]] bool freed_with_last_use() const { return freed_last_; }

private:
    const MPI_Comm handle_;
    const MPI_Comm block_comm_;
    const std::vector<int> block_ranks_;
    const std::vector<int> world_ranks_;
    const std::vector<int> host_ranks_;  ///< among the processes of this host, or MPI_UNDEFINED
    const std::shared_ptr<HostLinks> links_;
    const CollectiveRoutes routes_;
    std::atomic<Wire> wire_{Wire::cldist};
    std::atomic<bool> freed_{false};
    std::atomic<bool> freed_last_{false};
    mutable std::mutex mutex_;
    mutable std::shared_ptr<CollectiveLine> collectives_;
};

/// The communicators that commands have used, until they are freed. Thread-safe.
class Communicators {
public:
    /// Duplicates MPI_COMM_WORLD for blocks and for collectives; collective. Throws an Error.
    Communicators();
    Communicators(const Communicators &) = delete;
    Communicators &operator=(const Communicators &) = delete;
    /// Must be gone before MPI_Finalize.
    ~Communicators();

    /// Throws an Error with CL_INVALID_COMMUNICATOR if `comm` is null or was freed. Duplicates MPI_COMM_SELF for the time.
    static void check(MPI_Comm comm);
    /// What is known of `comm`. Throws like check(), and if it has processes that block_comm() would not reach.
    std::shared_ptr<const Communicator> find(MPI_Comm comm);
    /// Duplicates a communicator with processes that MPI_COMM_WORLD has not; nothing for others. Collective over it.
    /// Throws an Error.
    void add_foreign(MPI_Comm comm);
    /// A choice was made for a communicator that may be known already.
    void note_wire(MPI_Comm comm, Wire wire);
    /// Whether operations are pending on it, with whose last one MPI frees it: their probes need the handle.
    bool free_later(MPI_Comm comm);

    [[nodiscard]] MPI_Comm world() const { return world_; }
    [[nodiscard]] const std::shared_ptr<HostLinks> &links() const { return links_; }
    /// Those that are not freed.
    [[nodiscard]] std::vector<std::shared_ptr<const Communicator>> known();
    /// All on which blocks go.
    [[nodiscard]] std::vector<MPI_Comm> block_comms();
    /// All on which messages of collectives go.
    [[nodiscard]] std::vector<MPI_Comm> collective_comms();
    /// Those of all communicators with collective commands.
    [[nodiscard]] std::vector<std::shared_ptr<CollectiveLine>> collectives();

private:
    static int on_free(MPI_Comm comm, int keyval, void *communicator, void *self);
    std::shared_ptr<Communicator> make(MPI_Comm comm) const;
    /// The one that is known from now on.
    std::shared_ptr<const Communicator> keep(const std::shared_ptr<Communicator> &communicator);

    MPI_Comm world_ = MPI_COMM_NULL;
    MPI_Comm self_ = MPI_COMM_NULL;         ///< what is wrong with others is reported to it
    MPI_Comm host_ = MPI_COMM_NULL;         ///< the processes of this host
    MPI_Comm collectives_ = MPI_COMM_NULL;  ///< a duplicate of world_
    std::shared_ptr<Channels> contexts_;    ///< of collectives on all communicators
    std::shared_ptr<HostLinks> links_;
    int keyval_ = MPI_KEYVAL_INVALID;
    std::mutex mutex_;
    std::map<MPI_Comm, std::shared_ptr<Communicator>> known_;
    std::vector<MPI_Comm> foreign_;              ///< duplicates made by add_foreign()
    std::vector<MPI_Comm> foreign_collectives_;  ///< the same, for collectives
};

}  // namespace cldist
