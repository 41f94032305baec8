#include "pipeline/place_trial.hpp"

#include "base/clock.hpp"
#include "base/config.hpp"

namespace cldist {
namespace {

// If the first block took this many times longer than the average of the others, the transfer has
// waited for its peer and is no sample. In a pipeline of three stages, about 3 is normal.
constexpr double waited = 8;

}  // namespace

bool PlaceTrial::chooses_place(const DeviceRange &range, const Situation &situation) {
    if (config().refine == Switch::off || range.resources == nullptr ||
        !may_stage(range.size, situation, config()))
        return false;
    resources_ = range.resources;
    size_ = range.size;
    in_place_ = resources_->refinements().next_in_place(size_);
    start_ns_ = now_ns();
    return in_place_;
}

void PlaceTrial::ended(const BlockTransfer &transfer, std::size_t block) {
    if (resources_ == nullptr || transfer.first_moved_ns() == 0) return;
    const std::uint64_t end = now_ns();
    const auto first = static_cast<double>(transfer.first_moved_ns() - start_ns_);
    const auto others = static_cast<double>(end - transfer.first_moved_ns());
    const std::size_t blocks = (size_ + block - 1) / block;
    if (blocks > 1 && first > waited * others / static_cast<double>(blocks - 1)) return;
    resources_->refinements().took(size_, in_place_, (first + others) * 1e-9);
}

}  // namespace cldist
