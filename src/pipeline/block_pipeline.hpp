#pragma once

#include <cstddef>
#include <vector>

#include "events/operation.hpp"
#include "pipeline/endpoint.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

/// Moves a transfer in blocks from a source to a sink, `plan.depth` at a time, so that the two overlap. One of the two
/// is `device`. After an error all blocks are still skipped through both ends, so that no far end waits for ever; what a
/// failing source had of its block goes on its way first.
class BlockPipeline {
public:
    /// The endpoints outlive the pipeline. If `so_far` is a failure, all blocks are skipped.
    BlockPipeline(Endpoint &source, Endpoint &sink, DeviceEndpoint &device, std::size_t size, const Plan &plan,
                  Status so_far = {});

    /// Advances what can be advanced.
    Progress poll();
    /// The first error.
    [[nodiscard]] const Status &status() const { return status_; }
    /// Bytes that have gone all the way.
    [[nodiscard]] std::size_t bytes_moved() const { return bytes_moved_; }
    /// Blocks that were given to an end and have not ended there.
    [[nodiscard]] std::size_t blocks_in_source() const { return started_ - filled_; }
    [[nodiscard]] std::size_t blocks_in_sink() const { return filled_ - drained_; }

private:
    enum class Phase { open_source, open_sink, blocks, close_sink, close_source, done };

    bool step();
    bool move_blocks();
    bool settle(const Outcome &outcome, Phase next);
    static void begin(Endpoint &endpoint, Block &block, bool skip);
    bool end(Endpoint &endpoint, Block &block);
    [[nodiscard]] Block make_block(std::size_t index) const;
    Block &block(std::size_t index) { return blocks_[index % blocks_.size()]; }

    Endpoint &source_;
    Endpoint &sink_;
    DeviceEndpoint &device_;
    const std::size_t size_;
    const std::size_t block_size_;
    const std::size_t first_;  ///< bytes of the first block
    const std::size_t count_;
    std::vector<Block> blocks_;  ///< one per slot

    Phase phase_ = Phase::open_source;
    std::size_t started_ = 0;  ///< blocks given to the source
    std::size_t filled_ = 0;   ///< blocks the source has ended, given to the sink
    std::size_t drained_ = 0;  ///< blocks the sink has ended
    std::size_t bytes_moved_ = 0;
    Status status_;
};

}  // namespace cldist
