#pragma once

#include "events/record.hpp"
#include "mpi_interop/runtime.hpp"

namespace cldist {

struct PeerArgument {
    int rank;
    int tag;
};

/// Throws an Error if the communicator, which must be valid, is an inter-communicator.
void check_intra(MPI_Comm comm);

/// Check the rank and the tag of a message in `direction`. Throw an Error. A command checks the
/// ranks of all its messages before the tags.
void check_rank(const PeerArgument &peer, Direction direction, const Communicator &comm);
void check_tag(const PeerArgument &peer, Direction direction, int max_tag);

}  // namespace cldist
