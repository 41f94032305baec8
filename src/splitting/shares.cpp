#include "splitting/shares.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>

namespace cldist::splitting {

namespace {

constexpr double least_gain = 0.1;  // fraction of a launch's time
constexpr std::uint64_t first_time = 4;
constexpr std::uint64_t longest_interval = 1024;

bool is_rate(double rate) { return rate > 0 && std::isfinite(rate); }

}  // namespace

void MedianRate::add(double work_items, double seconds) {
    const double rate = work_items / seconds;
    if (!is_rate(rate)) return;
    if (last_.size() == most) last_.erase(last_.begin());
    last_.push_back(rate);
}

double MedianRate::median() const {
    if (last_.empty()) return 0;
    std::vector<double> sorted = last_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
}

std::vector<double> shares_by_rates(std::span<const double> before, std::span<const double> rates) {
    assert(before.size() == rates.size());
    std::vector<double> kept(before.begin(), before.end());
    if (!std::ranges::all_of(rates, is_rate)) return kept;
    const double all = std::accumulate(rates.begin(), rates.end(), 0.0);
    const double all_before = std::accumulate(kept.begin(), kept.end(), 0.0);
    double time_before = 0;  // per work-item
    for (std::size_t i = 0; i < kept.size(); ++i)
        time_before = std::max(time_before, kept[i] / all_before / rates[i]);
    const double time = 1 / all;
    if (!(time < (1 - least_gain) * time_before)) return kept;
    std::vector<double> shares;
    for (const double rate : rates) shares.push_back(rate / all);
    return shares;
}

std::size_t AdaptedShares::add_kind() {
    kinds_.push_back({std::vector<double>(shares_.size()), 0, 0});
    return kinds_.size() - 1;
}

bool AdaptedShares::count_launch(std::size_t kind, double work_items) {
    kinds_[kind].work_items += work_items;
    const std::uint64_t launches = ++kinds_[kind].launches;
    return launches >= first_time &&
           (std::has_single_bit(launches) || launches % longest_interval == 0);
}

bool AdaptedShares::adapt(std::span<const double> rates) {
    assert(rates.size() <= kinds_.size() * shares_.size());
    // Time that each device would need alone for all launches.
    std::vector<double> times(shares_.size());
    for (std::size_t k = 0; (k + 1) * shares_.size() <= rates.size(); ++k) {
        Kind &kind = kinds_[k];
        double known_rates = 0;
        double known_shares = 0;
        for (std::size_t i = 0; i < shares_.size(); ++i) {
            const double now = rates[k * shares_.size() + i];
            double &rate = kind.rates[i];
            // The geometric mean gives old and new measurements the same weight, even if they
            // differ by orders of magnitude.
            if (is_rate(now)) rate = is_rate(rate) ? std::sqrt(rate) * std::sqrt(now) : now;
            if (!is_rate(rate)) continue;
            known_rates += rate;
            known_shares += shares_[i];
        }
        if (known_rates > 0)
            for (std::size_t i = 0; i < shares_.size(); ++i)
                times[i] += kind.work_items / (is_rate(kind.rates[i])
                                                   ? kind.rates[i]
                                                   : known_rates * shares_[i] / known_shares);
        kind.work_items /= 2;
    }
    for (double &time : times) time = 1 / time;
    std::vector<double> shares = shares_by_rates(shares_, times);
    if (shares == shares_) return false;
    shares_ = std::move(shares);
    ++version_;
    return true;
}

}  // namespace cldist::splitting
