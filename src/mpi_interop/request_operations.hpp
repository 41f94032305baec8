#pragma once

#include <memory>

#include "events/operation.hpp"
#include "mpi_interop/adopted_requests.hpp"
#include "mpi_interop/stand_in_request.hpp"

namespace cldist {

/// Creates an operation that waits for `request` and then completes `stand_in` in the same way.
/// `adopted` must outlive the operation.
std::unique_ptr<Operation> make_request_wait(MPI_Request request,
                                             std::unique_ptr<StandInRequest> stand_in,
                                             AdoptedRequests &adopted);

/// Creates an operation that completes `stand_in` at its start, which must follow `event`'s end.
std::unique_ptr<Operation> make_event_wait(cl_event event,
                                           std::unique_ptr<StandInRequest> stand_in);

/// Wraps `operation`, a send or a receive. The user's `request` completes when the operation ends.
/// If the user cancels the request, the operation is cancelled.
std::unique_ptr<Operation> make_requested(std::unique_ptr<Operation> operation,
                                          std::unique_ptr<StandInRequest> request);

}  // namespace cldist
