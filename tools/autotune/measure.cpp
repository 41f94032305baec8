#include "measure.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "schedule.hpp"
#include "ways.hpp"

namespace cldist::tool {
namespace {

// depth_part: the fraction of the budget for choosing depths. most_of_rest: the fraction of the
// remaining time that the fewest rounds of the next size may take.
constexpr double depth_part = 0.1;
constexpr double most_of_rest = 0.7;
constexpr std::size_t depth_size = std::size_t{16} << 20U;
// With fewer blocks the depth does not matter.
constexpr std::size_t enough_blocks = 4;
constexpr std::size_t remeasured_min = std::size_t{4} << 20U;

bool smaller(const Curve::Point &a, const Curve::Point &b) { return a.size < b.size; }

class Measuring {
public:
    Measuring(Transfers &transfers, const Task &task)
        : transfers_(transfers), task_(task), start_(task.now()) {
        for (const Way &way : ways_of(task.route, task.host_memory)) curves_.push_back({way, {}});
    }

    std::vector<Curve> all() {
        const std::vector<std::size_t> sizes = sizes_of(task_.route, task_.largest);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const double done = static_cast<double>(i) / static_cast<double>(sizes.size());
            task_.progress(sizes[i], std::max(done, elapsed() / task_.budget) * (1 - depth_part));
            const auto best = one_size(sizes[i], left(), sizes.size() - i);
            if (!best || *best > longest_transfer) break;
        }
        task_.progress(depth_size, 1 - depth_part);
        if (choose_depths()) measure_again();
        std::erase_if(curves_, [](const Curve &curve) { return curve.points.empty(); });
        return std::move(curves_);
    }

private:
    [[nodiscard]] double elapsed() const { return task_.now() - start_; }
    [[nodiscard]] double left() const { return task_.budget * (1 - depth_part) - elapsed(); }

    // Extrapolates the time from the sizes measured so far: those of this way, otherwise of the
    // fastest way of its kind, otherwise of the fastest way.
    [[nodiscard]] double expected(const Way &way, std::size_t size) const {
        constexpr double nothing = std::numeric_limits<double>::infinity();
        double same_kind = nothing;
        double any = nothing;
        for (const Curve &curve : curves_) {
            if (curve.points.empty()) continue;
            // As Path::mapped, the curve has times for all sizes, even below the way's block size.
            // Such times are usable estimates.
            const auto seconds = Curve{{Path::mapped}, curve.points}.expected_seconds(size);
            if (!seconds) continue;
            if (curve.way == way) return *seconds;
            if (curve.way.path == way.path && curve.way.maps == way.maps)
                same_kind = std::min(same_kind, *seconds);
            any = std::min(any, *seconds);
        }
        const double guess = same_kind < nothing ? same_kind : any;
        return guess < nothing ? guess : 0;
    }

    // The ways to measure; of equivalent ways only one.
    [[nodiscard]] std::vector<Way> different_ways(std::size_t size) const {
        std::vector<Way> ways;
        for (const Curve &curve : curves_) {
            if (!is_measured(curve.way, size)) continue;
            const Way done = as_done(curve.way, size);
            const bool known = std::any_of(ways.begin(), ways.end(), [&](const Way &way) {
                return as_done(way, size) == done;
            });
            if (!known) ways.push_back(curve.way);
        }
        return ways;
    }

    [[nodiscard]] std::vector<double> race_until(double end, const std::vector<Way> &ways,
                                                 std::size_t size) {
        return race(transfers_, task_, ways, size, {least_rounds, most_rounds, end, true});
    }

    // Returns the best time; empty if there was no time to measure. `rest` is the time in seconds
    // for the `sizes_left` sizes from this one on.
    std::optional<double> one_size(std::size_t size, double rest, std::size_t sizes_left) {
        std::vector<Way> ways = different_ways(size);
        std::vector<double> guesses;
        for (const Way &way : ways) guesses.push_back(expected(way, size));
        std::vector<Way> chosen;
        for (const std::size_t i : affordable(guesses, task_.loop_seconds, rest * most_of_rest))
            chosen.push_back(ways[i]);
        if (chosen.empty()) return {};
        const std::vector<double> medians =
            race_until(task_.now() + rest / static_cast<double>(sizes_left), chosen, size);
        for (Curve &curve : curves_) {
            if (!is_measured(curve.way, size)) continue;
            for (std::size_t i = 0; i < chosen.size(); ++i)
                if (as_done(chosen[i], size) == as_done(curve.way, size))
                    curve.points.push_back({size, medians[i]});
        }
        return *std::min_element(medians.begin(), medians.end());
    }

    // Measures the sizes with many blocks again, because their times depend on the depths.
    void measure_again() {
        std::vector<std::size_t> sizes;
        for (const std::size_t size : sizes_of(task_.route, task_.largest))
            if (size >= remeasured_min &&
                std::any_of(curves_.begin(), curves_.end(), [size](const Curve &curve) {
                    return !curve.points.empty() && curve.points.back().size >= size;
                }))
                sizes.push_back(size);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            std::vector<Curve> before = curves_;
            for (Curve &curve : curves_)
                std::erase_if(curve.points,
                              [&](const auto &point) { return point.size == sizes[i]; });
            const double rest = start_ + task_.budget - task_.now();
            if (!one_size(sizes[i], rest, sizes.size() - i)) curves_ = std::move(before);
            for (Curve &curve : curves_)
                std::sort(curve.points.begin(), curve.points.end(), smaller);
        }
    }

    // For each kind of way in blocks, the best depth for its best block is used for all blocks.
    // Returns whether a depth changed.
    bool choose_depths() {
        bool changed = false;
        const double end = start_ + task_.budget;
        for (const auto &[path, maps] :
             {std::pair{Path::mapped, true}, std::pair{Path::chunked, true},
              std::pair{Path::chunked, false}}) {
            const Curve *best = nullptr;
            Curve::Point point{};
            for (const Curve &curve : curves_) {
                if (curve.way.path != path || curve.way.maps != maps || curve.way.eager) continue;
                const auto at = std::find_if(curve.points.rbegin(), curve.points.rend(),
                                             [](const auto &p) { return p.size <= depth_size; });
                if (at == curve.points.rend() || at->size / curve.way.block < enough_blocks)
                    continue;
                if (best != nullptr && (at->size < point.size ||
                                        (at->size == point.size && at->seconds >= point.seconds)))
                    continue;
                best = &curve;
                point = *at;
            }
            if (best == nullptr) continue;
            std::vector<Way> ways;
            std::vector<double> guesses;
            for (const unsigned depth : {2U, 3U, 4U, 6U, 8U, 12U}) {
                if (depth > point.size / best->way.block) break;
                ways.push_back(best->way);
                ways.back().depth = depth;
                guesses.push_back(point.seconds);
            }
            const double rest = end - task_.now();
            if (ways.size() < 2 ||
                affordable(guesses, task_.loop_seconds, rest).size() < ways.size())
                continue;
            const std::vector<double> medians =
                race_until(task_.now() + rest / 3, ways, point.size);
            std::vector<std::pair<unsigned, double>> times;
            for (std::size_t i = 0; i < ways.size(); ++i)
                times.emplace_back(ways[i].depth, medians[i]);
            const unsigned depth = good_depth(times, best->way.depth);
            changed = changed || depth != best->way.depth;
            for (Curve &curve : curves_)
                if (curve.way.path == path && curve.way.maps == maps && !curve.way.eager)
                    curve.way.depth = depth;
        }
        return changed;
    }

    Transfers &transfers_;
    const Task &task_;
    const double start_;
    std::vector<Curve> curves_;
};

}  // namespace

std::vector<double> race(Transfers &transfers, const Task &task, const std::vector<Way> &ways,
                         std::size_t size, const Rounds &rounds) {
    std::vector<std::vector<double>> times(ways.size());
    std::vector<unsigned> counts(ways.size());
    for (std::size_t i = 0; i < ways.size(); ++i)
        counts[i] = repetitions(transfers.seconds(ways[i], size, 1), task.loop_seconds);
    std::vector<bool> runs(ways.size(), true);
    for (unsigned round = 0; round < rounds.most; ++round) {
        if (round >= rounds.least && task.now() >= rounds.end) break;
        for (std::size_t turn = 0; turn < ways.size(); ++turn) {
            const std::size_t i = (turn + round) % ways.size();
            if (!runs[i]) continue;
            const double seconds = transfers.seconds(ways[i], size, counts[i]);
            times[i].push_back(seconds);
            // The first count is from a single transfer, which may have been slow.
            if (round == 0) counts[i] = repetitions(seconds, task.loop_seconds);
        }
        if (rounds.drops_slow) runs = still_measured(times);
    }
    std::vector<double> medians;
    for (std::size_t i = 0; i < ways.size(); ++i) {
        if (!transfers.arrives(ways[i], size))
            throw TuneError(fmt::format("{}, {}, {}: the received bytes differ from the sent bytes",
                                        name_of(task.route), size_text(size), describe(ways[i])));
        medians.push_back(median(times[i]));
    }
    if (task.spreads != nullptr)
        task.spreads->push_back(spread(times[static_cast<std::size_t>(
            std::min_element(medians.begin(), medians.end()) - medians.begin())]));
    return medians;
}

std::vector<Curve> measure(Transfers &transfers, const Task &task) {
    return Measuring(transfers, task).all();
}

}  // namespace cldist::tool
