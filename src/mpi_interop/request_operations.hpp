#pragma once

#include <memory>

#include "events/operation.hpp"
#include "mpi_interop/adopted_requests.hpp"
#include "mpi_interop/stand_in_request.hpp"
#include "ocl/handle.hpp"

namespace cldist {

/// Ends when `request` does. `stand_in` ends with it, in the same way. `adopted` outlives the operation.
std::unique_ptr<Operation> make_request_wait(MPI_Request request, std::unique_ptr<StandInRequest> stand_in,
                                             AdoptedRequests &adopted);

/// Ends `stand_in` when started, which is to be when `event` ended.
std::unique_ptr<Operation> make_event_wait(cl_event event, std::unique_ptr<StandInRequest> stand_in);

}  // namespace cldist
