#pragma once

#include <memory>

#include "events/operation.hpp"
#include "mpi_interop/stand_in_request.hpp"

namespace cldist {

/// `operation`, a send or a receive, for which the user holds `request`: it is complete when the operation has ended, and
/// gives up the operation when it is cancelled.
std::unique_ptr<Operation> make_requested(std::unique_ptr<Operation> operation,
                                          std::unique_ptr<StandInRequest> request);

}  // namespace cldist
