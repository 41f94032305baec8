#include "api/peer.hpp"

#include <fmt/format.h>

#include "mpi_interop/mpi_status.hpp"

namespace cldist {

void check_intra(MPI_Comm comm) {
    int inter = 0;
    check_mpi(PMPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
    if (inter != 0)
        throw Error(CL_INVALID_COMMUNICATOR,
                    "the communicator is an inter-communicator; expected an intra-communicator");
}

void check_rank(const PeerArgument &peer, Direction direction, const Communicator &comm) {
    const bool recv = direction == Direction::recv;
    const bool known = (peer.rank >= 0 && peer.rank < comm.peers()) || peer.rank == MPI_PROC_NULL;
    if (!known && !(recv && peer.rank == MPI_ANY_SOURCE))
        throw Error(CL_INVALID_RANK,
                    fmt::format("{} {} is not a rank of the communicator; expected 0 to {}",
                                recv ? "source" : "destination", peer.rank, comm.peers() - 1));
}

void check_tag(const PeerArgument &peer, Direction direction, int max_tag) {
    const bool recv = direction == Direction::recv;
    if ((peer.tag < 0 || peer.tag > max_tag) && !(recv && peer.tag == MPI_ANY_TAG))
        throw Error(CL_INVALID_TAG,
                    fmt::format("the tag is {}; expected 0 to {}", peer.tag, max_tag));
}

}  // namespace cldist
