#pragma once

#include <memory>

#include "cluster/execution/transport.hpp"
#include "cluster/world/host_memory_transfer.hpp"
#include "mpi_interop/host_links.hpp"
#include "mpi_interop/message_driver.hpp"

namespace cldist::cluster {

/// Creates one end of a message between two devices. The processes' hosts move the bytes, or a
/// kernel of the sender and the receiver's host do.
std::unique_ptr<Operation> make_channel_transfer(DeviceRange range, Direction direction,
                                                 const Wire &wire, const Link &link,
                                                 HostLinks &rings, MessageDriver &driver);

}  // namespace cldist::cluster
