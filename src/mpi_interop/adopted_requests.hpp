#pragma once

#include <cstddef>
#include <vector>

#include <mpi.h>

#include "events/operation.hpp"

namespace cldist {

/// A user's request that the library waits for.
struct AdoptedRequest {
    MPI_Request request;
    Waker waker;  ///< called when the request is done, if not empty
    bool done = false;
    int error = MPI_SUCCESS;  ///< valid once done
    MPI_Status status{};      ///< valid once done; the status of MPI_Test
};

/// Tests users' requests. Each request needs a separate MPI_Test. MPICH's calls for many requests
/// report errors to MPI_COMM_WORLD's handler instead of the communicator's. Open MPI's MPI_Testany
/// loses errors of persistent requests. MPI_Request_get_status does not advance MPICH's file
/// operations.
class AdoptedRequests {
public:
    /// Tests `request` from now on. It must stay at its address until it is done.
    void add(AdoptedRequest &request) { pending_.push_back(&request); }
    /// Tests some requests in rotation. Returns true if one is done, or if the test took so long
    /// that MPI must have moved bytes. MPI moves the bytes of large messages only inside its calls,
    /// and it does not report this progress.
    bool poll();

private:
    // A test that finds nothing takes up to half a microsecond. A round tests only a few requests,
    // so a thousand requests cost no more time than these.
    static constexpr std::size_t per_round = 16;

    std::vector<AdoptedRequest *> pending_;
    std::size_t next_ = 0;
};

}  // namespace cldist
