#pragma once

#include <memory>
#include <vector>

#include "cluster/execution/transport.hpp"
#include "cluster/world/host_memory_transfer.hpp"
#include "mpi_interop/message_driver.hpp"

namespace cldist::cluster {

/// Creates the operation of Transport::relay(). `from`: the null communicator at the root. `reach`
/// may be null.
std::unique_ptr<Operation> make_relay(Result result, const Wire &from, const std::vector<Wire> &to,
                                      std::shared_ptr<Ending> ending, TimesOfCommand times,
                                      const HostMemoryReach *reach, MessageDriver &driver);

}  // namespace cldist::cluster
