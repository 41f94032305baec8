#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <mpi.h>

#include "cluster/world/host_memory_reach.hpp"
#include "events/operation.hpp"
#include "mpi_interop/message_driver.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/endpoint.hpp"

namespace cldist::cluster {

/// The peer and the envelope of a message in MPI.
struct Wire {
    MPI_Comm comm;
    int rank;
    int tag;
};

inline std::shared_ptr<Record> record_of(Direction direction, const Wire &wire, std::size_t size) {
    return std::make_shared<Record>(direction, wire.rank, wire.rank, wire.tag, size);
}

/// A message that contains one object. Must not be moved while it is in flight.
template <typename Content>
class ObjectMessage {
public:
    void send(const Content &content, const Wire &wire, MessageDriver &driver, const Waker &waker) {
        content_ = content;
        ticket_.waker = &waker;
        driver.send(&content_, sizeof content_, wire.rank, wire.tag, wire.comm, ticket_);
    }
    void receive(const Wire &wire, MessageDriver &driver, const Waker &waker) {
        ticket_.waker = &waker;
        driver.receive(&content_, sizeof content_, wire.rank, wire.tag, wire.comm, ticket_);
    }
    [[nodiscard]] bool done() const { return ticket_.done; }
    [[nodiscard]] int error() const { return ticket_.error; }
    /// What has been sent, or has been received when the message is done.
    [[nodiscard]] const Content &content() const { return content_; }

private:
    Content content_{};
    MessageTicket ticket_;
};

/// A copy between the memory of another process and that of this process, in another thread.
class OwnCopy {
public:
    /// The first call starts the copy. Returns nothing until the copy has ended. `waker` is called
    /// at its end.
    Outcome poll(const HostMemoryReach &reach, int rank, std::uint64_t address, std::byte *here,
                 std::size_t size, bool writes, const Waker &waker);

private:
    struct State {
        std::atomic<bool> over = false;
        int error = 0;
    };
    std::shared_ptr<State> state_;
};

/// Creates one end of the transfer of a range of process 0's memory to the process of a device,
/// which copies the bytes itself. `range` is host memory at both ends.
std::unique_ptr<Operation> make_host_memory_transfer(DeviceRange range, Direction direction,
                                                     const Wire &wire, const HostMemoryReach &reach,
                                                     MessageDriver &driver);

}  // namespace cldist::cluster
