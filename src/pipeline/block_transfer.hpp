#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "pipeline/block_pipeline.hpp"
#include "pipeline/device_endpoint.hpp"

namespace cldist {

/// A transfer in blocks: the device's end, the far end, and the pipeline between them.
class BlockTransfer {
public:
    /// `range` must outlive the transfer. If `so_far` is a failure, all blocks are skipped.
    /// `shared`: where the blocks are if two processes share them.
    BlockTransfer(const DeviceRange &range, Direction direction, std::size_t size, const Plan &plan,
                  std::shared_ptr<Endpoint> far_end, const std::shared_ptr<Record> &record,
                  const Status &so_far = {}, SharedPlace shared = {})
        : reads_device_(reads_device(direction)),
          device_(make_device_endpoint(range, direction, plan, record, std::move(shared))),
          far_(std::move(far_end)),
          pipeline_(reads_device_ ? static_cast<Endpoint &>(*device_) : *far_,
                    reads_device_ ? *far_ : static_cast<Endpoint &>(*device_), *device_, size, plan,
                    so_far),
          record_(record) {}

    Progress poll() {
        const std::size_t before = pipeline_.bytes_moved();
        const Progress progress = pipeline_.poll();
        if (pipeline_.bytes_moved() != before) {
            if (before == 0) first_moved_ns_ = now_ns();
            record_->moved(pipeline_.bytes_moved() - before);
        }
        return progress;
    }
    [[nodiscard]] const Status &status() const { return pipeline_.status(); }
    /// Returns true if the device endpoint has unfinished blocks.
    [[nodiscard]] bool device_busy() const {
        return (reads_device_ ? pipeline_.blocks_in_source() : pipeline_.blocks_in_sink()) != 0;
    }
    /// The time at which the sink had moved the first bytes. 0 before.
    [[nodiscard]] std::uint64_t first_moved_ns() const { return first_moved_ns_; }

private:
    const bool reads_device_;
    std::unique_ptr<DeviceEndpoint> device_;
    std::shared_ptr<Endpoint> far_;
    BlockPipeline pipeline_;
    std::shared_ptr<Record> record_;
    std::uint64_t first_moved_ns_ = 0;
};

}  // namespace cldist
