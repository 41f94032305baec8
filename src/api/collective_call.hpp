#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "api/arguments.hpp"
#include "mpi_interop/collective_operations.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist {

/// The communicator of a collective and this process's rank in it.
struct CollectiveGroup {
    std::shared_ptr<Runtime> runtime;
    std::shared_ptr<const Communicator> comm;
    int rank = 0;
    int size = 0;

    explicit CollectiveGroup(MPI_Comm handle);
    void check_root(int root) const;
};

/// A range of a buffer. For kinds with a size per process, also the parts of the processes.
struct SideArgument {
    RangeArgument range;
    std::vector<Span> parts;
};

/// The arguments of a call. `send` or `recv` is empty if this process does not send or receive.
struct CollectiveArguments {
    CommandArguments command;
    CollectiveGroup group;
    Collective what;
    std::optional<SideArgument> send{};
    std::optional<SideArgument> recv{};
    /// MPI_IN_PLACE: the send side begins this many bytes after the receive side, in one buffer.
    std::ptrdiff_t in_place_at = 0;
};

/// Checks the arguments of a collective command and enqueues or runs it.
void run_collective(CollectiveArguments call);

}  // namespace cldist
