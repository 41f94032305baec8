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

/// One end of a message.
struct Wire {
    MPI_Comm comm;
    int rank;
    int tag;
};

inline std::shared_ptr<Record> record_of(Direction direction, const Wire &wire, std::size_t size) {
    return std::make_shared<Record>(direction, wire.rank, wire.rank, wire.tag, size);
}

/// A copy between the memory of process 0 and memory of this process, in another thread.
class OwnCopy {
public:
    /// The first call starts the copy. Returns nothing until it has ended, and calls `waker` then.
    Outcome poll(const HostMemoryReach &reach, std::uint64_t address, std::byte *here,
                 std::size_t size, bool writes, const Waker &waker);

private:
    struct State {
        std::atomic<bool> over = false;
        int error = 0;
    };
    std::shared_ptr<State> state_;
};

/// Makes the operation that brings a range of the memory of process 0 to the process of a device,
/// which copies the bytes itself.
std::unique_ptr<Operation> make_host_memory_transfer(DeviceRange range, Direction direction,
                                                     const Wire &wire, const HostMemoryReach &reach,
                                                     MessageDriver &driver);

}  // namespace cldist::cluster
