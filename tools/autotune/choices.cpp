#include "choices.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/config.hpp"
#include "collectives/schedule.hpp"
#include "measure.hpp"
#include "pipeline/plan.hpp"

namespace cldist::tool {
namespace {

constexpr std::array<Route, route_count> all_routes{Route::same_host, Route::other_host,
                                                    Route::from_file, Route::to_file};

const Curve *curve_of(const std::vector<Curve> &curves, const Way &way) {
    const auto at = std::find_if(curves.begin(), curves.end(),
                                 [&](const Curve &curve) { return curve.way == way; });
    return at == curves.end() ? nullptr : &*at;
}

// The way chosen for a size class is used for all sizes of the class, even without a measurement.
std::optional<double> expected_seconds(const Curve &curve, std::size_t size) {
    if (const auto seconds = curve.expected_seconds(size)) return seconds;
    const std::size_t least = smallest_of_class(size_class(size));
    const auto seconds = curve.expected_seconds(least);
    if (!seconds) return {};
    return *seconds * static_cast<double>(size) / static_cast<double>(least);
}

std::string time_text(double seconds) {
    if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
    return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 2 : 0);
}

double gigabytes_per_second(std::size_t size, double seconds) {
    return static_cast<double>(size) / seconds * 1e-9;
}

std::string rate_text(std::size_t size, double seconds) {
    const double rate = gigabytes_per_second(size, seconds);
    return fmt::format("{:.{}f}", rate, rate < 0.1 ? 4 : 2);
}

std::string path_text(const Way &way) {
    if (way.eager) return way.maps ? "whole, mapped" : "whole";
    return fmt::format("{}{}", cldist::name_of(way.path),
                       way.path != Path::mapped && way.maps ? ", mapped" : "");
}

struct Table {
    std::vector<std::vector<std::string>> rows;

    [[nodiscard]] std::string text() const {
        std::vector<std::size_t> widths(rows.front().size(), 0);
        for (const auto &row : rows)
            for (std::size_t i = 0; i < row.size(); ++i)
                widths[i] = std::max(widths[i], row[i].size());
        std::string text;
        for (const auto &row : rows) {
            std::string line;
            for (std::size_t i = 0; i < row.size(); ++i) {
                // Numbers are right-aligned, words are left-aligned.
                const bool number = rows.front()[i].front() == ' ';
                line += number ? fmt::format("  {:>{}}", row[i], widths[i])
                               : fmt::format("  {:<{}}", row[i], widths[i]);
            }
            text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
        }
        return text;
    }
};

std::vector<std::string> explain_row(std::size_t size, const Choice &choice) {
    const Way &way = choice.way;
    const bool in_blocks = !way.eager && way.block != 0;
    std::vector<std::string> row{size_text(size), path_text(way),
                                 in_blocks ? size_text(way.block) : "-",
                                 in_blocks ? fmt::format("{}", way.depth) : "-"};
    if (!choice.seconds) return row;
    row.push_back(time_text(*choice.seconds));
    row.push_back(rate_text(size, *choice.seconds));
    row.push_back(choice.runner_up ? fmt::format("{}: {}", describe(*choice.runner_up),
                                                 time_text(*choice.runner_up_seconds))
                                   : "-");
    row.push_back(choice.bound ? fmt::format("{}: {} GB/s", choice.bound->what,
                                             rate_text(size, expected_of(*choice.bound, size)))
                               : "-");
    return row;
}

std::string explain_route(const Profile *profile, Route route,
                          const std::vector<std::size_t> &sizes, const Here &here) {
    const auto index = static_cast<std::size_t>(route);
    const bool measured = profile != nullptr && profile->routes.at(index).has_value();
    std::string text = name_of(route);
    text += measured ? fmt::format(" (measured {}, {})\n", profile->routes.at(index)->when,
                                   profile->routes.at(index)->between)
                     : ": not measured, the built-in choice\n";
    Table table{{{" size", "path", " block", " depth"}}};
    if (measured)
        for (const char *title : {" time", " GB/s", "runner-up", "slowest part alone"})
            table.rows.front().emplace_back(title);
    for (const std::size_t size : sizes)
        table.rows.push_back(explain_row(size, choose(profile, route, size, here)));
    return text + table.text();
}

std::tuple<Path, bool, bool> kind_of(const Way &way) { return {way.path, way.maps, way.eager}; }

std::vector<std::size_t> measured_sizes(const std::vector<Curve> &curves) {
    std::set<std::size_t> sizes;
    for (const Curve &curve : curves)
        for (const Curve::Point &point : curve.points) sizes.insert(point.size);
    return {sizes.begin(), sizes.end()};
}

nlohmann::json plot_of(const Profile &profile, Route route, const Here &here) {
    const auto &curves = profile.routes.at(static_cast<std::size_t>(route))->curves;
    const std::vector<std::size_t> sizes = measured_sizes(curves);
    nlohmann::json paths = nlohmann::json::array();
    std::set<std::tuple<Path, bool, bool>> done;
    for (const Curve &of_kind : curves) {
        if (!done.insert(kind_of(of_kind.way)).second) continue;
        nlohmann::json points = nlohmann::json::array();
        for (const std::size_t size : sizes) {
            double best = 0;
            for (const Curve &curve : curves)
                for (const Curve::Point &point : curve.points)
                    if (kind_of(curve.way) == kind_of(of_kind.way) && point.size == size)
                        best = std::max(best, gigabytes_per_second(size, point.seconds));
            if (best > 0) points.push_back({size, best});
        }
        paths.push_back({{"label", path_text(of_kind.way)}, {"points", points}});
    }
    nlohmann::json chosen = nlohmann::json::array();
    std::set<std::string> ceilings;
    nlohmann::json bounds = nlohmann::json::array();
    // Four sizes per octave, like the size classes of choices.
    for (std::size_t i = size_class(sizes.front()); i <= size_class(sizes.back()); ++i) {
        const std::size_t size = smallest_of_class(i);
        const Choice choice = choose(&profile, route, size, here);
        if (choice.seconds) chosen.push_back({size, gigabytes_per_second(size, *choice.seconds)});
    }
    for (const Ceiling &ceiling : profile.ceilings) {
        const bool copies =
            ceiling.what == (route == Route::to_file ? to_host_ceiling : to_device_ceiling) ||
            (!is_file(route) && ceiling.what == to_host_ceiling);
        if (!copies && ceiling.what != transport_ceiling(route)) continue;
        nlohmann::json points = nlohmann::json::array();
        for (std::size_t i = size_class(sizes.front()); i <= size_class(sizes.back()); ++i) {
            const std::size_t size = smallest_of_class(i);
            points.push_back({size, gigabytes_per_second(size, expected_of(ceiling, size))});
        }
        bounds.push_back({{"label", ceiling.what}, {"points", points}});
    }
    return {{"name", name_of(route)}, {"paths", paths}, {"chosen", chosen}, {"ceilings", bounds}};
}

}  // namespace

Way way_taken(Route route, std::size_t size, const Here &here, const Advice *advice,
              const Config &requested) {
    Situation situation{here.host_memory, plan_mapping(here.host_memory, size, advice, requested),
                        route == Route::same_host};
    situation.advice = advice;
    situation.ring = route == Route::same_host;
    if (situation.ring && !here.host_memory) situation.exports = Exports::landing;
    const Plan plan =
        is_file(route)
            ? plan_file(size, situation, {route == Route::from_file ? here.file_threads : 1, 1, 0},
                        requested)
            : plan_send(size, situation, requested);
    if (plan.eager) return {plan.path, situation.mapped, true, 0, 1};
    if (plan.path == Path::staged) return {Path::staged, false, false, 0, 1};
    return {plan.path, situation.mapped, false, plan.block, plan.depth};
}

const char *transport_ceiling(Route route) {
    switch (route) {
        case Route::same_host: return "MPI, same host";
        case Route::other_host: return "MPI, other host";
        case Route::from_file: return "file read";
        case Route::to_file: break;
    }
    return "file write";
}

std::optional<Ceiling> bound_of(const std::vector<Ceiling> &ceilings, Route route, const Way &way,
                                std::size_t size) {
    // The mapped path has only copies by MPI or the file system, shared and peer-to-peer none by
    // MPI.
    const bool copies = way.path != Path::mapped && way.path != Path::peer_to_peer;
    const bool transported = way.path != Path::shared && way.path != Path::peer_to_peer;
    std::optional<Ceiling> slowest;
    for (const Ceiling &ceiling : ceilings) {
        const bool to_host = ceiling.what == to_host_ceiling && route != Route::from_file;
        const bool to_device = ceiling.what == to_device_ceiling && route != Route::to_file;
        if (!(transported && ceiling.what == transport_ceiling(route)) &&
            !(copies && (to_host || to_device)))
            continue;
        if (!slowest || expected_of(ceiling, size) > expected_of(*slowest, size)) slowest = ceiling;
    }
    return slowest;
}

Choice choose(const Profile *profile, Route route, std::size_t size, const Here &here) {
    const auto index = static_cast<std::size_t>(route);
    if (profile == nullptr || !profile->routes.at(index))
        return {way_taken(route, size, here, nullptr), {}};
    const std::vector<Curve> &curves = profile->routes.at(index)->curves;
    const Advice advice(curves);
    Choice choice{way_taken(route, size, here, &advice), {}};
    const Curve *const curve = advice.way(size) ? curve_of(curves, *advice.way(size)) : nullptr;
    if (curve == nullptr) return choice;
    choice.seconds = expected_seconds(*curve, size);
    choice.bound = bound_of(profile->ceilings, route, choice.way, size);
    // The smallest size of a class decides. A larger size of the class may have another best way.
    const Ranking ranking = rank(curves, size);
    const Curve *const second = ranking.best == curve ? ranking.runner_up : ranking.best;
    if (second != nullptr) {
        choice.runner_up = second->way;
        choice.runner_up_seconds = second->expected_seconds(size);
    }
    return choice;
}

std::string explain_text(const Profile *profile, const std::vector<std::size_t> &sizes,
                         const Here &here) {
    std::string text;
    for (const Route route : all_routes)
        text += (text.empty() ? "" : "\n") + explain_route(profile, route, sizes, here);
    return text;
}

std::string explain_collectives(const std::vector<std::size_t> &sizes) {
    using namespace collectives;
    constexpr std::size_t numbers[] = {1, 2, 4, 8, 16};
    std::map<std::string, std::string> always;  // algorithm -> collectives
    std::string tables;
    for (const Kind kind : all_kinds) {
        std::set<std::string> chosen;
        Table table{{{" size"}}};
        for (const std::size_t n : numbers) table.rows.front().push_back(fmt::format("{} x 2", n));
        for (const std::size_t size : sizes) {
            table.rows.push_back({size_text(size)});
            for (const std::size_t n : numbers) {
                table.rows.back().emplace_back(name_of(choose(kind, n, 2 * n, size)));
                chosen.insert(table.rows.back().back());
            }
        }
        if (chosen.size() == 1) {
            std::string &kinds = always[*chosen.begin()];
            kinds += (kinds.empty() ? "" : ", ") + std::string(name_of(kind));
        } else {
            tables += fmt::format("{} of devices, {} x devices of each\n{}", name_of(kind),
                                  kind == Kind::broadcast ? "hosts" : "processes", table.text());
        }
    }
    std::string text = "collectives of devices, always:";
    for (const auto &[algorithm, kinds] : always)
        text += fmt::format("{} {}: {}", text.back() == ':' ? "" : ";", kinds, algorithm);
    return text + "\n" + tables;
}

std::string result_text(const Profile &profile, Route route, const Here &here) {
    const auto &measured = *profile.routes.at(static_cast<std::size_t>(route));
    Table table{{{" size", "chosen", " GB/s", "instead of"}}};
    for (const std::size_t size : measured_sizes(measured.curves)) {
        const Choice choice = choose(&profile, route, size, here);
        const Way built_in = choose(nullptr, route, size, here).way;
        table.rows.push_back({size_text(size), describe(choice.way),
                              choice.seconds ? rate_text(size, *choice.seconds) : "-",
                              built_in == choice.way ? "" : describe(built_in)});
    }
    return fmt::format("{} ({})\n{}", name_of(route), measured.between, table.text());
}

nlohmann::json plot_data(const Profile &profile, const Here &here) {
    nlohmann::json routes = nlohmann::json::array();
    for (const Route route : all_routes)
        if (profile.routes.at(static_cast<std::size_t>(route)))
            routes.push_back(plot_of(profile, route, here));
    return {{"title", fmt::format("{} on {}, {}", profile.system.device, profile.system.host,
                                  profile.system.mpi)},
            {"routes", routes}};
}

std::optional<std::size_t> parse_size(const std::string &text) {
    const auto bytes = parse_bytes(text, std::size_t{1} << 40U);
    return bytes && *bytes != 0 ? bytes : std::nullopt;
}

std::vector<std::size_t> usual_sizes() {
    std::vector<std::size_t> sizes;
    for (std::size_t size = 1024; size <= std::size_t{256} << 20U; size *= 2) sizes.push_back(size);
    return sizes;
}

Profile merged(const Profile &measured, const Profile &before) {
    if (!(measured.system == before.system)) return measured;
    Profile result = measured;
    for (std::size_t i = 0; i < route_count; ++i)
        if (!result.routes.at(i)) result.routes.at(i) = before.routes.at(i);
    for (const Ceiling &old : before.ceilings) {
        const bool replaced =
            std::any_of(measured.ceilings.begin(), measured.ceilings.end(),
                        [&](const Ceiling &ceiling) { return ceiling.what == old.what; });
        if (!replaced) result.ceilings.push_back(old);
    }
    return result;
}

}  // namespace cldist::tool
