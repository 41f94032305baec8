#include "pipeline/refinement.hpp"

#include <algorithm>

namespace cldist {
namespace {

// Samples of each way before a comparison, and the required ratio of times. A smaller difference is
// noise.
constexpr unsigned enough_samples = 2;
constexpr double clearly_faster = 0.9;
// Transfers between two trials. The period doubles while trials find nothing better.
constexpr unsigned first_period = 2;
constexpr unsigned last_period = 64;

}  // namespace

bool WayRefinement::next() {
    if (++since_trial_ < period_) return in_use_;
    since_trial_ = 0;
    return !in_use_;
}

void WayRefinement::took(bool other, double seconds_per_byte) {
    Way &way = ways_.at(other ? 1 : 0);
    way.last.at(way.samples++ % way.last.size()) = seconds_per_byte;
    const auto &[planned, second] = ways_;
    if (planned.samples < enough_samples || second.samples < enough_samples) return;
    const double used = (in_use_ ? second : planned).shortest();
    if ((in_use_ ? planned : second).shortest() < used * clearly_faster) {
        in_use_ = !in_use_;
        period_ = first_period;
    } else if (other != in_use_) {
        period_ = std::min(period_ * 2, last_period);
    }
}

double WayRefinement::Way::shortest() const {
    return *std::min_element(last.begin(),
                             samples < last.size() ? last.begin() + samples : last.end());
}

bool Refinements::next_in_place(std::size_t size) {
    const std::lock_guard lock(mutex_);
    return in_place_.at(size_class(size)).next();
}

void Refinements::took(std::size_t size, bool in_place, double seconds) {
    const std::lock_guard lock(mutex_);
    in_place_.at(size_class(size)).took(in_place, seconds / static_cast<double>(size));
}

}  // namespace cldist
