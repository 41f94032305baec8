#pragma once

#include <memory>

#include "events/operation.hpp"
#include "mpi_interop/stand_in_request.hpp"

namespace cldist {

/// Wraps `operation`, a send or a receive. The user's `request` completes when the operation ends.
/// If the user cancels the request, the operation is cancelled.
std::unique_ptr<Operation> make_requested(std::unique_ptr<Operation> operation,
                                          std::unique_ptr<StandInRequest> request);

}  // namespace cldist
