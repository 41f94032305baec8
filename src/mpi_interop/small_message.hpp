#pragma once

#include <cstddef>
#include <optional>

#include "mpi_interop/message_operations.hpp"
#include "mpi_interop/message_order.hpp"

namespace cldist {

/// A blocking command's message that travels with its envelope, on an in-order queue, while no other command of the library
/// is in flight: nobody else waits for it, drives it or looks at it. So it needs no operation, whose cost is that of the
/// message itself.
struct SmallMessage {
    cl_command_queue queue;
    cl_mem buffer;
    std::size_t offset;  ///< bytes
    std::size_t size;    ///< bytes, from 1 to largest_small
    MessagePeer peer;
    std::byte *address;  ///< where the range lies, if that lasts (HostAddresses); else null
};

inline constexpr std::size_t largest_small = std::size_t{16} << 10U;

/// Reads the range and sends it; returns when MPI has taken it. If the range can't be read the receiver is told.
Status send_small(const SmallMessage &message);

/// Waits for a message and writes it to the range. A message that is not small, or no payload, is only matched, and left to
/// a receive operation (make_recv).
Status recv_small(const SmallMessage &message, std::optional<MatchedMessage> &left);

}  // namespace cldist
