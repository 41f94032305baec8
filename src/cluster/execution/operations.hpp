/// What the engine does for the cluster platform. Messages have no envelope: both ends know their sizes, and name them by
/// the tag.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cluster/objects/ending.hpp"
#include "events/operation.hpp"
#include "mpi_interop/host_links.hpp"
#include "mpi_interop/message_driver.hpp"
#include "pipeline/device_endpoint.hpp"

namespace cldist::cluster {

/// One end of a message.
struct Wire {
    MPI_Comm comm;
    int rank;
    int tag;
};

/// What transfers from and to a memory are planned by; all processes know it of all memories.
struct MemoryTraits {
    bool host_memory;        ///< it is its host's
    AdviceForRoutes advice;  ///< of its profile; only for messages if the memory is another process's

    [[nodiscard]] const Advice *messages(bool same_host) const {
        const auto &advised = advice.at(static_cast<std::size_t>(message_route(same_host)));
        return advised ? &*advised : nullptr;
    }
};

/// What both ends of a transfer know, so that they cut it alike, and what its own memory is like.
struct Link {
    bool same_host;
    const MemoryTraits &sender;
    const MemoryTraits &here;
    HostLinks &rings;
    bool in_process;  ///< between two memories of this process

    [[nodiscard]] const Advice *advice_here() const { return here.messages(same_host); }
};

/// Moves a range of a buffer from or to another process. A sender whose wait list failed tells the receiver.
std::unique_ptr<Operation> make_channel_transfer(DeviceRange range, Direction direction, Wire wire, Link link,
                                                 MessageDriver &driver);

/// The times of a command that has ended: nothing if no process wants them, empty where another process's device ran it.
using TimesOfCommand = std::optional<std::function<Times()>>;

/// Tells another process how something ended and, if that was well, its times.
std::unique_ptr<Operation> make_status_send(Wire wire, TimesOfCommand times, MessageDriver &driver);
/// Is told so, and ends `ending` alike.
std::unique_ptr<Operation> make_status_receive(Wire wire, std::shared_ptr<Ending> ending, MessageDriver &driver);

/// Bytes that a command brings into the host memory of every process.
struct Result {
    std::byte *data = nullptr;  ///< where, in this process; if the device is here, by the native command
    std::size_t size = 0;
    std::function<void()> arrived;       ///< called when all bytes are there, before the event ends; may be empty
    std::shared_ptr<const void> kept{};  ///< the memory, where it is needed
};

/// Passes a result on: it comes from `from`, if that has a communicator, and goes to each of `to`, in pieces. Then ends
/// `ending`. If the bytes failed to come, so do those who wait for them. Times, if any, come last.
std::unique_ptr<Operation> make_relay(Result result, Wire from, std::vector<Wire> to, std::shared_ptr<Ending> ending,
                                      TimesOfCommand times, MessageDriver &driver);

/// Ends `ending` as the wait list ended.
std::unique_ptr<Operation> make_notice(std::shared_ptr<Ending> ending);

}  // namespace cldist::cluster
