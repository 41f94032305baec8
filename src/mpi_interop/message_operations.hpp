#pragma once

#include <memory>
#include <optional>

#include "events/operation.hpp"
#include "mpi_interop/communicator.hpp"
#include "mpi_interop/message_driver.hpp"
#include "pipeline/device_endpoint.hpp"

namespace cldist {

/// The message end of a transfer.
struct MessagePeer {
    std::shared_ptr<const Communicator> comm;
    int rank;  ///< or MPI_ANY_SOURCE, or MPI_PROC_NULL
    int tag;   ///< or MPI_ANY_TAG
};

/// Creates a send. `driver` and `channels` must outlive the operation. With `synchronous` it ends
/// only when the receiver has matched the message. With `ordered`, a kernel sends if possible.
std::unique_ptr<Operation> make_send(DeviceRange range, MessagePeer peer, MessageDriver &driver,
                                     Channels &channels, bool synchronous = false,
                                     std::unique_ptr<OrderedCommand> ordered = {});
/// Creates a receive. `found`, if set, is the message that was already matched. With `ordered`, its
/// kernel receives the bytes if possible.
std::unique_ptr<Operation> make_recv(DeviceRange range, MessagePeer peer, MessageDriver &driver,
                                     std::optional<MatchedMessage> found = {},
                                     std::unique_ptr<OrderedCommand> ordered = {});

/// Page-locked memory for `size` bytes, with space for a message header before it. Throws an Error
/// if there is none. Unless the caller `may_wait`, returns null if none is unused.
std::shared_ptr<std::byte> memory_after_header(const DeviceResources &resources, std::size_t size,
                                               bool may_wait);

std::shared_ptr<Record> make_record(Direction direction, std::size_t size, const MessagePeer &peer);

/// The failure of a receive whose message no cldist command sent.
Status not_recognized(const MatchedMessage &message);

}  // namespace cldist
