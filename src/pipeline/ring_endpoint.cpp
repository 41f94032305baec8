#include "pipeline/ring_endpoint.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"

namespace cldist {
namespace {

// While no block passes, check this often whether the peer still lives.
constexpr std::uint64_t check_again_ns = 10'000'000;

}  // namespace

RingEndpoint::RingEndpoint(std::shared_ptr<Ring> ring, RingPeer peer, Direction direction,
                           const Plan &plan, std::size_t size, std::shared_ptr<Record> record)
    : ring_(std::move(ring)),
      peer_(std::move(peer)),
      sends_(direction == Direction::send),
      count_((size + plan.block - 1) / plan.block),
      start_ns_(plan.depth),
      record_(std::move(record)) {}

RingEndpoint::~RingEndpoint() {
    if (!given_back_) ring_->give_back(clean_ && !alone_);
}

void RingEndpoint::start(const Block &block) {
    start_ns_[block.slot] = now_ns();
    RingControl &control = ring_->control();
    if (sends_)
        control.filled.store(block.index + 1, std::memory_order_release);
    else if (block.index >= start_ns_.size())  // the previous block in this slot was drained
        control.drained.store(block.index + 1 - start_ns_.size(), std::memory_order_release);
}

void RingEndpoint::skip(const Block &block) {
    RingControl &control = ring_->control();
    if (sends_ && control.failed_from.load(std::memory_order_relaxed) > block.index)
        control.failed_from.store(block.index, std::memory_order_relaxed);
    start(block);
}

bool RingEndpoint::passed(const Block &block) const {
    const RingControl &control = ring_->control();
    return (sends_ ? control.drained : control.filled).load(std::memory_order_acquire) >
           block.index;
}

bool RingEndpoint::left_alone() {
    if (alone_) return true;
    const std::uint64_t now = now_ns();
    if (next_check_ns_ == 0) next_check_ns_ = now + check_again_ns;
    if (now < next_check_ns_) return false;
    next_check_ns_ = now + check_again_ns;
    alone_ = ring_->control().given_up != 0 || !peer_.lives();
    return alone_;
}

Outcome RingEndpoint::ended(const Block &block) {
    if (!passed(block)) {
        if (!left_alone()) return std::nullopt;
        if (!passed(block))
            return Status::failure(
                CL_PEER_TRANSFER_FAILED,
                fmt::format("{} ended before it had transferred the whole message", peer_.name));
    }
    next_check_ns_ = 0;
    record_->stage_done(Stage::message, start_ns_[block.slot]);
    if (sends_) {
        clean_ = block.index + 1 == count_;
        return Status{};
    }
    if (ring_->control().failed_from.load(std::memory_order_relaxed) <= block.index)
        return Status::failure(
            CL_PEER_TRANSFER_FAILED,
            fmt::format("the sender failed after {} bytes of the message", block.offset));
    return Status{};
}

Outcome RingEndpoint::close() {
    if (sends_ || alone_) return Status{};
    // First, because the sender may use the ring for its next message when it sees the end.
    ring_->give_back(true);
    given_back_ = true;
    ring_->control().drained.store(count_, std::memory_order_release);
    return Status{};
}

}  // namespace cldist
