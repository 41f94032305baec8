#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/block_transfer.hpp"

namespace cldist {

/// One transfer as a sample of a block size, and of a way; see Refinement, WayRefinement.
class BlockTrial {
public:
    /// Whether a message goes in place that may be staged, which is to be planned so.
    [[nodiscard]] bool chooses_place(const DeviceRange &range, const Situation &situation);
    /// Changes the plan's block size, unless the user chose one, to a multiple of `granularity` bytes. To be called when the
    /// transfer starts.
    void refine(Plan &plan, const DeviceRange &range, Route route, std::size_t granularity = 1);
    /// The transfer has ended well.
    void ended(const BlockTransfer &transfer);

private:
    std::shared_ptr<DeviceResources> resources_;  ///< null: it tells nothing
    Route route_ = Route::same_host;
    std::size_t size_ = 0;
    std::size_t block_ = 0;
    int shift_ = 0;
    bool chose_way_ = false;
    bool in_place_ = false;
    std::uint64_t start_ns_ = 0;
};

}  // namespace cldist
