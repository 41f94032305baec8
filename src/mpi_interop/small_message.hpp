#pragma once

#include <cstddef>
#include <optional>

#include "mpi_interop/message_operations.hpp"
#include "mpi_interop/message_order.hpp"

namespace cldist {

/// A small message of a blocking command, sent in one MPI message with its header. The command's
/// queue must be in-order, and no other command of the library may be in flight. Then no other code
/// needs to see the command, and it needs no Operation, which would cost as much as the message.
struct SmallMessage {
    cl_command_queue queue;
    cl_mem buffer;
    std::size_t offset;  ///< bytes
    std::size_t size;    ///< bytes, from 1 to largest_small
    MessagePeer peer;
    /// Address of the range if it has a persistent mapping (HostAddresses). Otherwise null.
    std::byte *address;
};

inline constexpr std::size_t largest_small = std::size_t{16} << 10U;

/// Reads the range and sends it. Returns when MPI has accepted the message. If the range can't be
/// read, the receiver gets an error message.
Status send_small(const SmallMessage &message);

/// Waits for a message and writes it to the range. If the message does not fit this path or has no
/// payload, only matches it and stores it in `left`, for make_recv().
Status recv_small(const SmallMessage &message, std::optional<MatchedMessage> &left);

}  // namespace cldist
