#include "check.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "schedule.hpp"
#include "sizes.hpp"
#include "ways.hpp"

namespace cldist::tool {
namespace {

constexpr unsigned fewest_rounds = 5;
constexpr unsigned enough_rounds = 31;

Config forced(Path path, std::size_t block = 0) {
    Config config;
    config.path = path;
    config.block_size.value = block;
    return config;
}

// The fastest contender that differs from the chosen one; 0 if there is none. Differences between
// equal ways are noise.
std::size_t best_of_others(const CheckedSize &checked) {
    const Way chosen = as_done(checked.contenders[0].way, checked.size);
    std::size_t best = 0;
    for (std::size_t i = 1; i < checked.contenders.size(); ++i) {
        if (as_done(checked.contenders[i].way, checked.size) == chosen) continue;
        if (best == 0 || checked.seconds[i] < checked.seconds[best]) best = i;
    }
    return best;
}

}  // namespace

std::vector<Contender> contenders_of(const Profile &profile, Route route, std::size_t size,
                                     const Here &here) {
    const AdviceForRoutes advice = profile.advice();
    const auto &of_route = advice.at(static_cast<std::size_t>(route));
    const Way chosen = way_taken(route, size, here, of_route ? &*of_route : nullptr);
    std::vector<Contender> contenders{{"chosen", chosen}};
    const auto add = [&](std::string name, const Config &requested) {
        const Way way = way_taken(route, size, here, nullptr, requested);
        const bool known = std::any_of(
            contenders.begin() + 1, contenders.end(),
            [&](const Contender &c) { return as_done(c.way, size) == as_done(way, size); });
        if (!known) contenders.push_back({std::move(name), way});
    };
    add("built-in", {});
    for (const Path path : {Path::mapped, Path::staged, Path::chunked})
        add(name_of(path), forced(path));
    if (route == Route::same_host) add(name_of(Path::shared), forced(Path::shared));
    if (route == Route::same_host && !here.host_memory)
        add(name_of(Path::peer_to_peer), forced(Path::peer_to_peer));
    for (const std::size_t block : {256 * kib, mib, 4 * mib})
        if (block < size)
            add(fmt::format("chunked, {}", size_text(block)), forced(Path::chunked, block));
    return contenders;
}

double against_best(const CheckedSize &checked) {
    const std::size_t best = best_of_others(checked);
    return best == 0 ? 1 : checked.seconds[0] / checked.seconds[best];
}

std::vector<CheckedSize> check_route(Transfers &transfers, const Task &task, const Profile &profile,
                                     const Here &here) {
    std::vector<CheckedSize> result;
    const std::vector<std::size_t> sizes = sizes_of(task.route, task.largest);
    const double begin = task.now();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::size_t size = sizes[i];
        task.progress(size, static_cast<double>(i) / static_cast<double>(sizes.size()));
        CheckedSize checked{size, contenders_of(profile, task.route, size, here), {}};
        const std::size_t count = checked.contenders.size();
        if (!result.empty()) {
            const double ratio =
                static_cast<double>(size) / static_cast<double>(result.back().size);
            const double once =
                2 * ratio *
                *std::max_element(result.back().seconds.begin(), result.back().seconds.end());
            // Stops if even the fewest rounds of this size would exceed the remaining time.
            const double least = once * static_cast<double>(count) * (fewest_rounds + 2);
            if (once > task.loop_seconds && least > begin + task.budget - task.now()) break;
        }
        std::vector<Way> ways;
        for (const Contender &contender : checked.contenders) ways.push_back(contender.way);
        const double left = begin + task.budget - task.now();
        const double end = task.now() + left / static_cast<double>(sizes.size() - i);
        checked.seconds =
            race(transfers, task, ways, size, {fewest_rounds, enough_rounds, end, false});
        const double slowest = *std::max_element(checked.seconds.begin(), checked.seconds.end());
        result.push_back(std::move(checked));
        if (slowest > longest_transfer) break;
    }
    return result;
}

std::string check_text(Route route, const std::vector<CheckedSize> &checked) {
    std::string text = fmt::format(
        "{}\n\n| size | chosen | GB/s | best of the others | GB/s | time, chosen : best | built-in "
        ": chosen |\n"
        "|---:|---|---:|---|---:|---:|---:|\n",
        name_of(route));
    double worst = 0;
    for (const CheckedSize &size : checked) {
        const auto rate = [&](double seconds) {
            return static_cast<double>(size.size) / seconds * 1e-9;
        };
        const std::size_t best = best_of_others(size);
        // The built-in choice is the first contender after the chosen one.
        const double built_in = size.seconds.size() > 1 ? size.seconds[1] / size.seconds[0] : 1;
        const double ratio = against_best(size);
        worst = std::max(worst, ratio);
        text += fmt::format(
            "| {} | {} | {:.3g} | {} | {} | {:.2f} | {:.2f} |\n", size_text(size.size),
            describe(as_done(size.contenders[0].way, size.size)), rate(size.seconds[0]),
            best != 0 ? fmt::format("{}: {}", size.contenders[best].name,
                                    describe(as_done(size.contenders[best].way, size.size)))
                      : "none",
            best != 0 ? fmt::format("{:.3g}", rate(size.seconds[best])) : "", ratio, built_in);
    }
    return text +
           fmt::format("\nAt worst {:.2f} times as long as the best of the others.\n", worst);
}

}  // namespace cldist::tool
