#include "pipeline/refinement.hpp"

#include <algorithm>
#include <cstddef>

namespace cldist {
namespace {

constexpr std::size_t smallest_block = std::size_t{64} << 10U;
constexpr std::size_t largest_block = std::size_t{64} << 20U;
// Transfers between two trials. The period doubles while trials find nothing better.
constexpr unsigned first_period = 8;
constexpr unsigned last_period = 128;
// Samples of each candidate before a comparison, and the required ratio of times. A smaller difference is noise.
constexpr unsigned enough_samples = 4;
constexpr double clearly = 0.97;
// The best time grows by this factor with each slower sample, so that outdated values are forgotten.
constexpr double forgetting = 1.01;
// Two ways differ more than two block sizes, and their trials cost more.
constexpr unsigned enough_of_way = 2;
constexpr double clearly_other_way = 0.9;
constexpr unsigned first_period_of_way = 2;
constexpr unsigned last_period_of_way = 64;

}  // namespace

int Refinement::next(std::size_t planned, std::size_t size) {
    const auto possible = [&](int shift) {
        const std::size_t block = shifted(planned, shift);
        return shift == 0 || (block >= smallest_block && block <= std::min(largest_block, size));
    };
    const int in_use = possible(shift_) ? shift_ : 0;
    if (++since_trial_ < period_) return in_use;
    since_trial_ = 0;
    tries_larger_ = !tries_larger_;
    const int tried = shift_ + (tries_larger_ ? 1 : -1);
    return possible(tried) ? tried : in_use;
}

void Refinement::took(int shift, double seconds_per_byte) {
    if (shift < shift_ - 1 || shift > shift_ + 1) return;
    Candidate &met = candidates_.at(static_cast<std::size_t>(shift - shift_ + 1));
    met.best = met.samples == 0 ? seconds_per_byte : std::min(met.best * forgetting, seconds_per_byte);
    ++met.samples;
    auto &[smaller, used, larger] = candidates_;
    if (used.samples < enough_samples) return;
    const auto better = [most = used.best * clearly](const Candidate &other) {
        return other.samples >= enough_samples && other.best < most;
    };
    if (better(smaller)) {
        --shift_;
        candidates_ = {Candidate{}, smaller, used};
    } else if (better(larger)) {
        ++shift_;
        candidates_ = {used, larger, Candidate{}};
    } else {
        if (shift != shift_ && std::max(smaller.samples, larger.samples) % enough_samples == 0)
            period_ = std::min(period_ * 2, last_period);
        return;
    }
    period_ = first_period;
}

bool WayRefinement::next() {
    if (++since_trial_ < period_) return in_use_;
    since_trial_ = 0;
    return !in_use_;
}

void WayRefinement::took(bool other, double seconds_per_byte) {
    Way &way = ways_.at(other ? 1 : 0);
    way.last.at(way.samples++ % way.last.size()) = seconds_per_byte;
    const auto &[planned, second] = ways_;
    if (planned.samples < enough_of_way || second.samples < enough_of_way) return;
    const double used = (in_use_ ? second : planned).shortest();
    if ((in_use_ ? planned : second).shortest() < used * clearly_other_way) {
        in_use_ = !in_use_;
        period_ = first_period_of_way;
    } else if (other != in_use_) {
        period_ = std::min(period_ * 2, last_period_of_way);
    }
}

double WayRefinement::Way::shortest() const {
    return *std::min_element(last.begin(), samples < last.size() ? last.begin() + samples : last.end());
}

int Refinements::next(Route route, std::size_t planned, std::size_t size) {
    const std::lock_guard lock(mutex_);
    return of(route, size).next(planned, size);
}

void Refinements::took(Route route, std::size_t size, int shift, double seconds) {
    const std::lock_guard lock(mutex_);
    of(route, size).took(shift, seconds / static_cast<double>(size));
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
