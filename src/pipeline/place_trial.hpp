#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/block_transfer.hpp"

namespace cldist {

/// Measures one message as a sample for the choice between staging and moving in place (see
/// Refinements).
class PlaceTrial {
public:
    /// Returns true if a message that may be staged should move in place instead. Call it when the
    /// transfer starts.
    [[nodiscard]] bool chooses_place(const DeviceRange &range, const Situation &situation);
    /// Records the time of a successful transfer in blocks of `block` bytes.
    void ended(const BlockTransfer &transfer, std::size_t block);

private:
    std::shared_ptr<DeviceResources> resources_;  ///< null: this transfer is no sample
    std::size_t size_ = 0;
    bool in_place_ = false;
    std::uint64_t start_ns_ = 0;
};

}  // namespace cldist
