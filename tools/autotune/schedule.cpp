#include "schedule.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace cldist::tool {
namespace {

constexpr unsigned most_repetitions = 2000;
constexpr double good_enough = 1.02;
// A smaller advantage does not justify a deviation from the built-in choice.
constexpr double noise = 1.1;
// A message's route has more sizes and ways than a file's, and each round trip has two transfers.
double weight_of(Route route) {
    return route == Route::same_host || route == Route::other_host ? 2 : 1;
}
// The rest is for the start, the ceilings and unplanned time.
constexpr double planned_part = 0.9;
// Round trips of each way in addition to the rounds: one to warm up, one to check the bytes, and
// one for the time of the check itself.
constexpr double besides_rounds = 3;

}  // namespace

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double spread(std::vector<double> times) {
    if (times.size() < 2) return 0;
    std::sort(times.begin(), times.end());
    const auto quantile = [&](double part) {
        const double at = part * static_cast<double>(times.size() - 1);
        const auto below = std::min(static_cast<std::size_t>(at), times.size() - 2);
        return times[below] + (at - static_cast<double>(below)) * (times[below + 1] - times[below]);
    };
    return quantile(0.5) > 0 ? (quantile(0.75) - quantile(0.25)) / quantile(0.5) : 0;
}

unsigned repetitions(double seconds, double loop_seconds) {
    if (2 * seconds * most_repetitions <= loop_seconds) return most_repetitions;
    return std::max(1U, static_cast<unsigned>(loop_seconds / (2 * seconds)));
}

std::vector<bool> still_measured(const std::vector<std::vector<double>> &times) {
    double best = std::numeric_limits<double>::infinity();
    for (const auto &one : times)
        if (!one.empty()) best = std::min(best, median(one));
    std::vector<bool> still;
    for (const auto &one : times)
        still.push_back(!one.empty() &&
                        (one.size() < rounds_before_dropping || median(one) <= far_behind * best));
    return still;
}

std::vector<std::size_t> affordable(const std::vector<double> &expected, double loop_seconds,
                                    double budget) {
    std::vector<std::size_t> order(expected.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return expected[a] < expected[b]; });
    double cost = 0;
    std::size_t count = 0;
    for (; count < order.size(); ++count) {
        const double there_and_back = 2 * expected[order[count]];
        cost +=
            besides_rounds * there_and_back + least_rounds * std::max(there_and_back, loop_seconds);
        if (cost > budget) break;
    }
    if (count < std::min<std::size_t>(2, order.size())) count = 0;
    order.resize(count);
    std::sort(order.begin(), order.end());
    return order;
}

Budget::Budget(double seconds, double now, const std::vector<Route> &routes)
    : end_(now + planned_part * seconds) {
    for (const Route route : routes) weights_ += weight_of(route);
}

double Budget::share_of(Route route, double now) {
    const double left = std::max(end_ - now, 0.0);
    const double share = left * weight_of(route) / weights_;
    weights_ -= weight_of(route);
    rest_ = left - share;
    return share;
}

unsigned good_depth(const std::vector<std::pair<unsigned, double>> &times, unsigned usual) {
    const auto faster = [](const auto &a, const auto &b) { return a.second < b.second; };
    const double best = std::min_element(times.begin(), times.end(), faster)->second;
    unsigned smallest = std::numeric_limits<unsigned>::max();
    for (const auto &[depth, seconds] : times) {
        if (depth == usual && seconds <= noise * best) return usual;
        if (seconds <= good_enough * best) smallest = std::min(smallest, depth);
    }
    return smallest;
}

}  // namespace cldist::tool
