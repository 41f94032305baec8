#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "events/operation.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// The division of a transfer into blocks.
class BlockLayout {
public:
    BlockLayout(std::size_t size, const Plan &plan);
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] std::size_t offset(std::size_t index) const {
        return index == 0 ? 0 : first_ + (index - 1) * block_;
    }
    [[nodiscard]] std::size_t size(std::size_t index) const {
        return index == 0 ? first_ : std::min(block_, size_ - offset(index));
    }

private:
    std::size_t size_;   ///< bytes of the transfer
    std::size_t block_;  ///< bytes of a block
    std::size_t first_;  ///< bytes of the first block
    std::size_t count_;
};

/// Moves a transfer in blocks from a source to a sink. Up to `plan.depth` blocks are in flight, so
/// that source and sink overlap. One of the two is `device`. After an error, the remaining blocks
/// are still skipped through both ends, so that the far end does not wait forever. The bytes that a
/// failing source has read are moved on first.
class BlockPipeline {
public:
    /// The endpoints must outlive the pipeline. If `so_far` is a failure, all blocks are skipped.
    BlockPipeline(Endpoint &source, Endpoint &sink, DeviceEndpoint &device, std::size_t size,
                  const Plan &plan, Status so_far = {});

    /// Advances as far as possible without blocking.
    Progress poll();
    /// The first error.
    [[nodiscard]] const Status &status() const { return status_; }
    [[nodiscard]] std::size_t bytes_moved() const { return bytes_moved_; }
    /// Blocks that were started in the source, or the sink, and have not ended there.
    [[nodiscard]] std::size_t blocks_in_source() const { return started_ - filled_; }
    [[nodiscard]] std::size_t blocks_in_sink() const { return filled_ - drained_; }

private:
    enum class Phase { open_source, open_sink, blocks, close_sink, close_source, done };

    bool step();
    bool move_blocks();
    bool settle(const Outcome &outcome, Phase next);
    static void begin(Endpoint &endpoint, Block &block, bool skip);
    bool end(Endpoint &endpoint, Block &block);
    Block &block(std::size_t index) { return blocks_[index % blocks_.size()]; }

    Endpoint &source_;
    Endpoint &sink_;
    DeviceEndpoint &device_;
    const BlockLayout layout_;
    std::vector<Block> blocks_;  ///< by slot

    Phase phase_ = Phase::open_source;
    std::size_t started_ = 0;  ///< blocks started in the source
    /// Blocks that have ended in the source and were started in the sink.
    std::size_t filled_ = 0;
    std::size_t drained_ = 0;  ///< blocks that have ended in the sink
    std::size_t bytes_moved_ = 0;
    Status status_;
};

}  // namespace cldist
