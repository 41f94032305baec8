#include "pipeline/block_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace cldist {

BlockLayout::BlockLayout(std::size_t size, const Plan &plan)
    : size_(size),
      block_(plan.block),
      first_(std::min(plan.first != 0 ? plan.first : plan.block, size)),
      count_(size == 0 ? 0 : 1 + (size - first_ + plan.block - 1) / plan.block) {}

BlockPipeline::BlockPipeline(Endpoint &source, Endpoint &sink, DeviceEndpoint &device,
                             std::size_t size, const Plan &plan, Status so_far)
    : source_(source),
      sink_(sink),
      device_(device),
      layout_(size, plan),
      blocks_(plan.depth),
      phase_(so_far.ok() ? Phase::open_source : Phase::blocks),
      status_(std::move(so_far)) {}

Progress BlockPipeline::poll() {
    bool moved = false;
    while (phase_ != Phase::done && step()) moved = true;
    if (phase_ == Phase::done) return Progress::done;
    return moved ? Progress::moved : Progress::idle;
}

bool BlockPipeline::step() {
    switch (phase_) {
        case Phase::open_source: return settle(source_.open(), Phase::open_sink);
        case Phase::open_sink: return settle(sink_.open(), Phase::blocks);
        case Phase::blocks: return move_blocks();
        case Phase::close_sink: return settle(sink_.close(), Phase::close_source);
        case Phase::close_source: return settle(source_.close(), Phase::done);
        case Phase::done: break;
    }
    return false;
}

bool BlockPipeline::settle(const Outcome &outcome, Phase next) {
    if (!outcome) return false;
    if (status_.ok()) status_ = *outcome;
    phase_ = next;
    return true;
}

bool BlockPipeline::move_blocks() {
    const std::size_t before = started_ + filled_ + drained_;
    while (drained_ < filled_ && end(sink_, block(drained_))) {
        if (!block(drained_).skipped) bytes_moved_ += block(drained_).size;
        ++drained_;
    }
    while (filled_ < started_ && end(source_, block(filled_))) {
        begin(sink_, block(filled_), !status_.ok() && !block(filled_).shortened);
        ++filled_;
    }
    while (started_ < layout_.count() && started_ - drained_ < blocks_.size()) {
        Block &next = block(started_);
        next = {started_, layout_.offset(started_), layout_.size(started_),
                static_cast<unsigned>(started_ % blocks_.size())};
        if (status_.ok()) next.host = device_.host(next);
        begin(source_, next, !status_.ok());
        ++started_;
    }
    if (drained_ == layout_.count()) {
        phase_ = Phase::close_sink;
        return true;
    }
    return started_ + filled_ + drained_ != before;
}

void BlockPipeline::begin(Endpoint &endpoint, Block &block, bool skip) {
    block.skipped = skip;
    if (skip)
        endpoint.skip(block);
    else
        endpoint.start(block);
}

bool BlockPipeline::end(Endpoint &endpoint, Block &block) {
    const Outcome outcome = endpoint.ended(block);
    if (!outcome) return false;
    if (outcome->ok()) return true;
    const std::size_t moved = endpoint.moved_of_failed(block);
    // The bytes that a source has read before its failure are moved on, unless an earlier block
    // failed. The bytes that a sink has moved always count.
    block.shortened = moved != 0 && (status_.ok() || &endpoint == &sink_);
    block.skipped = !block.shortened;
    if (block.shortened) block.size = moved;
    if (status_.ok()) status_ = *outcome;
    return true;
}

}  // namespace cldist
