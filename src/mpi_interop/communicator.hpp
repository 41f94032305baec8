#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi_interop/channels.hpp"
#include "mpi_interop/collective_line.hpp"
#include "mpi_interop/host_links.hpp"
#include "mpi_interop/wire_choice.hpp"

namespace cldist {

/// The ranks of a communicator's processes elsewhere. For an inter-communicator, the processes of
/// the remote group. A process that is not there has MPI_UNDEFINED.
class PeerRanks {
public:
    /// By rank in the communicator: the ranks in the communicator for blocks, in MPI_COMM_WORLD and
    /// among the processes of this host.
    PeerRanks(std::vector<int> for_blocks, std::vector<int> in_world, std::vector<int> on_host)
        : for_blocks_(std::move(for_blocks)),
          in_world_(std::move(in_world)),
          on_host_(std::move(on_host)) {}

    [[nodiscard]] int count() const { return static_cast<int>(for_blocks_.size()); }
    [[nodiscard]] int for_blocks(int rank) const { return at(for_blocks_, rank); }
    [[nodiscard]] int in_world(int rank) const { return at(in_world_, rank); }
    [[nodiscard]] bool on_host(int rank) const { return at(on_host_, rank) != MPI_UNDEFINED; }
    /// Returns true if blocks reach every process.
    [[nodiscard]] bool complete() const {
        return std::find(for_blocks_.begin(), for_blocks_.end(), MPI_UNDEFINED) ==
               for_blocks_.end();
    }
    [[nodiscard]] PeerRanks with_blocks(std::vector<int> for_blocks) const {
        return {std::move(for_blocks), in_world_, on_host_};
    }

private:
    static int at(const std::vector<int> &ranks, int rank) {
        return ranks[static_cast<std::size_t>(rank)];
    }

    std::vector<int> for_blocks_;
    std::vector<int> in_world_;
    std::vector<int> on_host_;
};

/// The library's data for a user's communicator. All transfers on the communicator share it, and it
/// outlives the communicator.
class Communicator {
public:
    /// `block_comm` carries the blocks of large messages, and `routes` the messages of collectives.
    Communicator(MPI_Comm handle, MPI_Comm block_comm, PeerRanks ranks,
                 std::shared_ptr<HostLinks> links = {}, CollectiveRoutes routes = {})
        : handle_(handle),
          block_comm_(block_comm),
          ranks_(std::move(ranks)),
          links_(std::move(links)),
          routes_(std::move(routes)) {}
    ~Communicator();

    /// Returns a copy that uses other communicators for blocks and collectives.
    [[nodiscard]] std::shared_ptr<Communicator> with_blocks_on(MPI_Comm block_comm,
                                                               CollectiveRoutes routes) const;

    [[nodiscard]] MPI_Comm handle() const { return handle_; }
    [[nodiscard]] int peers() const { return ranks_.count(); }
    [[nodiscard]] MPI_Comm block_comm() const { return block_comm_; }
    [[nodiscard]] int block_rank(int rank) const { return ranks_.for_blocks(rank); }
    /// The rank in MPI_COMM_WORLD, or MPI_UNDEFINED.
    [[nodiscard]] int world_rank(int rank) const { return ranks_.in_world(rank); }
    /// Returns true if the process is on this host.
    [[nodiscard]] bool same_host(int rank) const { return ranks_.on_host(rank); }
    /// Rings to and from processes of this host, by rank in MPI_COMM_WORLD.
    [[nodiscard]] HostLinks &links() const { return *links_; }
    /// Returns true if block_comm() reaches every process.
    [[nodiscard]] bool complete() const { return ranks_.complete(); }

    /// A change applies to commands that are enqueued later.
    [[nodiscard]] Wire wire() const { return wire_; }
    void note_wire(Wire wire) { wire_ = wire; }

    /// The FIFO of its collective commands. The first call is collective over the communicator,
    /// which must be an intra-communicator, but does not wait for other processes. Throws an Error.
    std::shared_ptr<CollectiveLine> collectives() const;
    /// The same, or null if there was no collective command.
    std::shared_ptr<CollectiveLine> known_collectives() const;

    /// Communicators::add_foreign() has handled the communicator in all processes.
    [[nodiscard]] bool added() const { return added_; }
    void note_added() { added_ = true; }

    [[nodiscard]] bool freed() const { return freed_; }
    /// MPI is freeing the communicator.
    void note_freed() { freed_ = true; }
    /// The program freed the communicator while operations are pending. The destructor frees it.
    void free_with_last_use() { freed_last_ = true; }
    [[nodiscard]] bool freed_with_last_use() const { return freed_last_; }

private:
    const MPI_Comm handle_;
    const MPI_Comm block_comm_;
    const PeerRanks ranks_;
    const std::shared_ptr<HostLinks> links_;
    const CollectiveRoutes routes_;
    std::atomic<Wire> wire_{Wire::cldist};
    std::atomic<bool> added_{false};
    std::atomic<bool> freed_{false};
    std::atomic<bool> freed_last_{false};
    mutable std::mutex mutex_;
    mutable std::shared_ptr<CollectiveLine> collectives_;
};

/// The communicators that commands have used and that were not freed. Thread-safe.
class Communicators {
public:
    /// Duplicates MPI_COMM_WORLD for blocks and for collectives. Collective. Throws an Error.
    Communicators();
    /// Must run before MPI_Finalize.
    ~Communicators();

    /// Throws an Error with CL_INVALID_COMMUNICATOR if `comm` is null or was freed. Duplicates
    /// MPI_COMM_SELF temporarily.
    static void check(MPI_Comm comm);
    /// Returns the data of `comm`. Throws like check(), and if a process is outside MPI_COMM_WORLD
    /// and add_foreign() was not called.
    std::shared_ptr<const Communicator> find(MPI_Comm comm);
    /// Duplicates a communicator that has processes outside MPI_COMM_WORLD. Does nothing more for
    /// other communicators, nor when called again. Collective over it. Throws an Error.
    void add_foreign(MPI_Comm comm);
    /// Stores the choice if the communicator is known.
    void note_wire(MPI_Comm comm, Wire wire);
    /// If operations are pending on `comm`, forgets it and returns true. The last operation then
    /// frees it, because the operations' probes need the handle.
    bool free_later(MPI_Comm comm);

    [[nodiscard]] MPI_Comm world() const { return world_; }
    /// The processes of this host, for collective calls while the job begins.
    [[nodiscard]] MPI_Comm host() const { return host_; }
    [[nodiscard]] const std::shared_ptr<HostLinks> &links() const { return links_; }
    /// Communicators that were not freed.
    [[nodiscard]] std::vector<std::shared_ptr<const Communicator>> known();
    [[nodiscard]] std::vector<MPI_Comm> block_comms();
    /// All communicators that carry messages of collectives.
    [[nodiscard]] std::vector<MPI_Comm> collective_comms();
    /// The lines of all communicators that had collective commands.
    [[nodiscard]] std::vector<std::shared_ptr<CollectiveLine>> collectives();

private:
    static int on_free(MPI_Comm comm, int keyval, void *communicator, void *self);
    std::shared_ptr<Communicator> make(MPI_Comm comm) const;
    /// Adds `communicator` to known_ and returns it, or the entry that another thread has added.
    std::shared_ptr<const Communicator> keep(const std::shared_ptr<Communicator> &communicator);

    MPI_Comm world_ = MPI_COMM_NULL;
    MPI_Comm self_ = MPI_COMM_NULL;  ///< receives errors about invalid handles
    MPI_Comm host_ = MPI_COMM_NULL;
    MPI_Comm collectives_ = MPI_COMM_NULL;  ///< a duplicate of world_
    std::shared_ptr<Channels> contexts_;    ///< context numbers of the CollectiveLines
    std::shared_ptr<HostLinks> links_;
    int keyval_ = MPI_KEYVAL_INVALID;
    std::mutex mutex_;
    std::map<MPI_Comm, std::shared_ptr<Communicator>> known_;
    std::vector<MPI_Comm> foreign_;              ///< duplicates made by add_foreign()
    std::vector<MPI_Comm> foreign_collectives_;  ///< the same, for collectives
};

}  // namespace cldist
