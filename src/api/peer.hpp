#pragma once

#include "events/record.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist {

struct PeerArgument {
    int rank;
    int tag;
};

/// Checks the rank and the tag of a message in `direction`.
void check_peer(const PeerArgument &peer, Direction direction, const Communicator &comm, int max_tag);

}  // namespace cldist
