#pragma once

#include <cstddef>
#include <vector>

#include <mpi.h>

#include "events/operation.hpp"

namespace cldist {

/// A request of the user's that the library waits for in his place.
struct AdoptedRequest {
    MPI_Request request;
    Waker waker;  ///< called when it is done, if not empty
    bool done = false;
    int error = MPI_SUCCESS;  ///< once done
    MPI_Status status{};      ///< once done, as MPI_Test gave it
};

/// Asks MPI about users' requests. Each by an MPI_Test of its own: of the calls that ask about many at once, MPICH's give
/// errors to MPI_COMM_WORLD's handler instead of the communicator's, and Open MPI's MPI_Testany misses those of persistent
/// requests; MPI_Request_get_status does not move MPICH's file operations on.
class AdoptedRequests {
public:
    /// From now on `request` is asked about; it stays where it is until done.
    void add(AdoptedRequest &request);
    /// Asks about some, in turn. Whether any is done or MPI moved bytes, as far as can be told from the time it took: MPI
    /// tells of requests that they are done or not, but it moves the bytes of large messages only while it is called.
    bool poll();

private:
    // A call that finds nothing takes up to half a microsecond, so a round asks about a few, and a thousand requests
    // cost no more time than these.
    static constexpr std::size_t per_round = 16;

    std::vector<AdoptedRequest *> pending_;
    std::size_t next_ = 0;
};

}  // namespace cldist
