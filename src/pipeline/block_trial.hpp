#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/block_transfer.hpp"

namespace cldist {

/// Measures one transfer as a sample for a block size and for a way (see Refinement, WayRefinement).
class BlockTrial {
public:
    /// Returns true if the message should move in place, although it may also be staged.
    [[nodiscard]] bool chooses_place(const DeviceRange &range, const Situation &situation);
    /// Adapts the plan's block size, unless the user chose one. The size stays a multiple of `granularity` bytes. Call
    /// it when the transfer starts.
    void refine(Plan &plan, const DeviceRange &range, Route route, std::size_t granularity = 1);
    /// Records the time of a successful transfer.
    void ended(const BlockTransfer &transfer);

private:
    std::shared_ptr<DeviceResources> resources_;  ///< null: this transfer is no sample
    Route route_ = Route::same_host;
    std::size_t size_ = 0;
    std::size_t block_ = 0;
    int shift_ = 0;
    bool chose_way_ = false;
    bool in_place_ = false;
    std::uint64_t start_ns_ = 0;
};

}  // namespace cldist
