#pragma once

#include <memory>
#include <optional>

#include "events/operation.hpp"
#include "mpi_interop/communicator.hpp"
#include "mpi_interop/message_driver.hpp"
#include "pipeline/device_endpoint.hpp"

namespace cldist {

/// The message side of a transfer.
struct MessagePeer {
    std::shared_ptr<const Communicator> comm;
    int rank;  ///< or MPI_ANY_SOURCE, or MPI_PROC_NULL
    int tag;   ///< or MPI_ANY_TAG
};

/// `driver` and `channels` outlive the operation. With `synchronous` it ends only once its message is being received.
std::unique_ptr<Operation> make_send(DeviceRange range, MessagePeer peer, MessageDriver &driver, Channels &channels,
                                     bool synchronous = false);
/// `found`, if there is one, is the message that was matched already.
std::unique_ptr<Operation> make_recv(DeviceRange range, MessagePeer peer, MessageDriver &driver,
                                     std::optional<MatchedMessage> found = {});

/// Page-locked memory for `size` bytes, with room for an envelope before it. Throws an Error if there is none.
std::shared_ptr<std::byte> memory_behind_envelope(const DeviceResources &resources, std::size_t size);

std::shared_ptr<Record> make_record(Direction direction, std::size_t size, const MessagePeer &peer);

/// The failure of a receive that met a message no cldist command sent.
Status not_recognized(const MatchedMessage &message);

}  // namespace cldist
