#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <mpi.h>

#include "cluster/calls/call_log.hpp"
#include "cluster/objects/packing.hpp"
#include "cluster/schedule/topology.hpp"

namespace cldist::cluster {

/// What processes tell each other in a call that all make, by messages between two of them, which carry the number of the
/// call and its hash. Who gets a message of another call, or a broken one, uses nothing of it and waits: the divergence
/// watch is about to end the job. Any threads at once, each in a call of its own, but not under the lock: who is late
/// may wait for what another thread has yet to do. Throw an Error if MPI fails.
class Agreement {
public:
    /// Duplicates the communicator; collective.
    explicit Agreement(MPI_Comm comm);
    Agreement(const Agreement &) = delete;
    Agreement &operator=(const Agreement &) = delete;

    [[nodiscard]] Process self() const { return self_; }
    [[nodiscard]] Process processes() const { return processes_; }
    [[nodiscard]] bool alone() const { return processes_ == 1; }

    /// What `root` has; `mine` is ignored elsewhere. N - 1 messages.
    Blob from(const CallHash &call, Process root, Blob mine) const;
    /// What each of `some` has, in their order; `mine` is ignored in others. The first one tells all: less than 2 N messages.
    std::vector<Blob> of(const CallHash &call, std::span<const Process> some, Blob mine) const;
    /// The least of all. 2 (N - 1) messages.
    int least(const CallHash &call, int mine) const;
    /// Calls `work` in one of `some` after the other, with what it returned in the one before, at first with `begin`.
    /// What it returned in the last one. Less than 2 N messages.
    int in_turn(const CallHash &call, std::span<const Process> some, int begin,
                const std::function<int(int before)> &work) const;

    /// Collective; before MPI_Finalize.
    void end();

private:
    void wait(MPI_Request request, MPI_Status *status = MPI_STATUS_IGNORE) const;
    [[nodiscard]] int tag(const CallHash &call) const;
    void send(const CallHash &call, std::span<const Process> to, const Blob &blob) const;
    [[nodiscard]] Blob receive(const CallHash &call, Process from) const;

    MPI_Comm comm_;
    const int max_tag_;
    Process self_ = 0;
    Process processes_ = 1;
};

}  // namespace cldist::cluster
