#pragma once

#include <memory>
#include <vector>

#include "events/record.hpp"
#include "mpi_interop/message_driver.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// The rank and the channel that the blocks of one message use on the library's communicator.
struct BlockPeer {
    MPI_Comm comm;
    int rank;
    int channel;
};

/// The MPI end of a message in blocks. A skipped block is sent empty, which shows the receiver that
/// the sender failed.
class MessageEndpoint final : public Endpoint {
public:
    /// `waker` must outlive the endpoint. It is called when a block has ended. It may be empty.
    MessageEndpoint(MessageDriver &driver, Direction direction, BlockPeer peer, const Plan &plan,
                    std::shared_ptr<Record> record, const Waker &waker);

    void start(const Block &block) override;
    void skip(const Block &block) override;
    Outcome ended(const Block &block) override;

private:
    struct Slot {
        MessageTicket ticket;
        std::uint64_t start_ns = 0;
        std::unique_ptr<std::byte[]> dropped;  ///< memory for data that is discarded
    };

    MessageDriver &driver_;
    const Direction direction_;
    const BlockPeer peer_;
    const std::size_t block_;
    std::vector<Slot> slots_;
    bool mpi_failed_ = false;
    const std::shared_ptr<Record> record_;
};

}  // namespace cldist
