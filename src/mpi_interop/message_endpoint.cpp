#include "mpi_interop/message_endpoint.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {

MessageEndpoint::MessageEndpoint(MessageDriver &driver, Direction direction, BlockPeer peer,
                                 const Plan &plan, std::shared_ptr<Record> record,
                                 const Waker &waker)
    : driver_(driver),
      direction_(direction),
      peer_(peer),
      block_(plan.block),
      slots_(plan.depth),
      record_(std::move(record)) {
    for (Slot &slot : slots_) slot.ticket.waker = &waker;
}

void MessageEndpoint::start(const Block &block) {
    Slot &slot = slots_[block.slot];
    slot.start_ns = now_ns();
    if (direction_ == Direction::send)
        driver_.send(block.host, block.size, peer_.rank, peer_.channel, peer_.comm, slot.ticket);
    else
        driver_.receive(block.host, block.size, peer_.rank, peer_.channel, peer_.comm, slot.ticket);
}

void MessageEndpoint::skip(const Block &block) {
    Slot &slot = slots_[block.slot];
    if (mpi_failed_) {
        // The peer can't be reached, and MPI might never answer.
        slot.ticket.done = true;
        slot.ticket.error = MPI_SUCCESS;
        slot.ticket.bytes = block.size;
        return;
    }
    Block substitute = block;
    if (direction_ == Direction::send) {
        substitute.size = 0;
    } else {
        if (slot.dropped == nullptr) slot.dropped = std::make_unique<std::byte[]>(block_);
        substitute.host = slot.dropped.get();
    }
    start(substitute);
}

Outcome MessageEndpoint::ended(const Block &block) {
    const Slot &slot = slots_[block.slot];
    if (!slot.ticket.done) return std::nullopt;
    if (slot.ticket.error != MPI_SUCCESS) {
        mpi_failed_ = true;
        return mpi_failure(slot.ticket.error,
                           direction_ == Direction::send ? "MPI_Isend" : "MPI_Irecv");
    }
    record_->stage_done(Stage::message, slot.start_ns);
    if (direction_ == Direction::recv && slot.ticket.bytes != block.size)
        return Status::failure(
            CL_PEER_TRANSFER_FAILED,
            fmt::format("the sender failed after {} bytes of the message", block.offset));
    return Status{};
}

}  // namespace cldist
