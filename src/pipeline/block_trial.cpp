#include "pipeline/block_trial.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/config.hpp"

namespace cldist {
namespace {

// If the first block took this many times longer than the average of the others, the transfer has waited for its peer.
// Its time then does not measure the block size. A pipeline has three stages.
constexpr double waited = 8;

}  // namespace

bool BlockTrial::chooses_place(const DeviceRange &range, const Situation &situation) {
    if (config().refine == Switch::off || range.resources == nullptr || !may_stage(range.size, situation, config()))
        return false;
    chose_way_ = true;
    in_place_ = range.resources->refinements().next_in_place(range.size);
    return in_place_;
}

void BlockTrial::refine(Plan &plan, const DeviceRange &range, Route route, std::size_t granularity) {
    if (config().refine == Switch::off || config().block_size.value != 0 || plan.path == Path::pinned ||
        range.resources == nullptr || range.strided || plan.block >= range.size)
        return;
    // In place, the block size does not matter.
    const int shift = in_place_ ? 0 : range.resources->refinements().next(route, plan.block, range.size);
    const std::size_t block = shifted(plan.block, shift);
    if (block % granularity != 0) return;
    resources_ = range.resources;
    route_ = route;
    size_ = range.size;
    block_ = block;
    shift_ = shift;
    start_ns_ = now_ns();
    const std::size_t blocks = (size_ + block - 1) / block;
    plan.block = block;
    plan.depth = static_cast<unsigned>(std::min<std::size_t>(plan.depth, blocks));
}

void BlockTrial::ended(const BlockTransfer &transfer) {
    if (resources_ == nullptr || transfer.first_moved_ns() == 0) return;
    const std::uint64_t end = now_ns();
    const auto first = static_cast<double>(transfer.first_moved_ns() - start_ns_);
    const auto others = static_cast<double>(end - transfer.first_moved_ns());
    const std::size_t blocks = (size_ + block_ - 1) / block_;
    if (blocks > 1 && first > waited * others / static_cast<double>(blocks - 1)) return;
    const double seconds = (first + others) * 1e-9;
    if (!in_place_) resources_->refinements().took(route_, size_, shift_, seconds);
    if (chose_way_) resources_->refinements().took(size_, in_place_, seconds);
}

}  // namespace cldist
