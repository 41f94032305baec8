#include "trace_merge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

using Json = nlohmann::json;

constexpr double ns_per_us = 1000;

double microseconds(double ns) { return ns / ns_per_us; }

std::string text_of(const ClockSample &sample) {
    return fmt::format("{:+.1f} +- {:.1f} us", microseconds(static_cast<double>(sample.offset_ns)),
                       microseconds(static_cast<double>(sample.uncertainty_ns)));
}

bool may_be_zero(const ClockSample &sample) {
    return std::abs(static_cast<double>(sample.offset_ns)) <=
           static_cast<double>(sample.uncertainty_ns);
}

struct Slice {
    double begin = 0;
    double end = std::numeric_limits<double>::infinity();
    std::vector<Json *> events{};
};

// Assigns each slice to the first lane in which it overlaps no earlier slice, and calls `move` for
// the events of slices in lane 1 and higher. With `nested`, a slice may be within another one.
template <typename Move>
void separate(std::vector<Slice> &slices, bool nested, Move &&move) {
    std::ranges::sort(slices, [](const Slice &a, const Slice &b) {
        return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    // For each lane, the ends of the slices that are still open, the innermost last.
    std::vector<std::vector<double>> lanes;
    for (const Slice &slice : slices) {
        std::size_t lane = 0;
        for (; lane < lanes.size(); ++lane) {
            std::vector<double> &ends = lanes[lane];
            while (!ends.empty() && ends.back() <= slice.begin) ends.pop_back();
            if (ends.empty() || (nested && slice.end <= ends.back())) break;
        }
        if (lane == lanes.size()) lanes.emplace_back();
        lanes[lane].push_back(slice.end);
        if (lane > 0)
            for (Json *const event : slice.events) move(*event, lane);
    }
}

// Perfetto cuts slices that overlap in one track unless one is within the other. A track is an id
// or a thread. Therefore overlapping stages get the ids "ID/1", "ID/2", and overlapping kernels get
// other threads.
void separate_tracks(std::vector<Json> &events) {
    std::map<std::string, std::vector<Slice>> commands;
    std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> open;
    std::map<std::uint64_t, std::vector<Slice>> kernels;
    std::map<std::uint64_t, std::string> names;
    std::uint64_t threads = 0;
    for (Json &event : events) {
        const std::string phase = event.value("ph", "");
        const std::string name = event.value("name", "");
        const auto thread = event.value("tid", std::uint64_t{0});
        threads = std::max(threads, thread + 1);
        if (phase == "M" && name == "thread_name" && event.contains("args")) {
            const Json &given = event["args"];
            if (given.contains("name") && given["name"].is_string())
                names[thread] = given["name"].get<std::string>();
        }
        if (phase == "X") {
            const double begin = event["ts"].get<double>();
            kernels[thread].push_back({begin, begin + event["dur"].get<double>(), {&event}});
        } else if (phase == "b") {
            const std::string id = event["id"].get<std::string>();
            open[{id, name}].push_back(commands[id].size());
            commands[id].push_back({.begin = event["ts"].get<double>(), .events = {&event}});
        } else if (phase == "e") {
            const std::string id = event["id"].get<std::string>();
            std::vector<std::size_t> &begun = open[{id, name}];
            if (begun.empty()) continue;
            Slice &slice = commands[id][begun.back()];
            begun.pop_back();
            slice.end = event["ts"].get<double>();
            slice.events.push_back(&event);
        }
    }
    for (auto &[id, slices] : commands)
        separate(slices, true, [&, of = id](Json &event, std::size_t lane) {
            event["id"] = fmt::format("{}/{}", of, lane);
        });
    std::vector<Json> added;
    for (auto &[thread, slices] : kernels) {
        std::map<std::size_t, std::uint64_t> threads_of_lanes;
        const auto name = names.try_emplace(thread, "kernels").first;
        separate(slices, false, [&](Json &event, std::size_t lane) {
            const auto [at, is_new] = threads_of_lanes.try_emplace(lane, threads);
            event["tid"] = at->second;
            if (!is_new) return;
            ++threads;
            added.push_back({{"ph", "M"},
                             {"name", "thread_name"},
                             {"pid", event["pid"]},
                             {"tid", at->second},
                             {"args", {{"name", fmt::format("{}, {}", name->second, lane + 1)}}}});
        });
    }
    std::move(added.begin(), added.end(), std::back_inserter(events));
}

}  // namespace

ClockCorrection::ClockCorrection(const std::vector<ClockSample> &samples) {
    if (samples.empty()) return;
    const ClockSample &first = samples.front();
    const ClockSample &last = samples.back();
    at_us_ = microseconds(static_cast<double>(first.at_ns));
    offset_us_ = microseconds(static_cast<double>(first.offset_ns));
    if (last.at_ns > first.at_ns)
        drift_ = (static_cast<double>(last.offset_ns) - static_cast<double>(first.offset_ns)) /
                 static_cast<double>(last.at_ns - first.at_ns);
    uncertainty_us_ =
        microseconds(static_cast<double>(std::max(first.uncertainty_ns, last.uncertainty_ns)));
}

ClockChoice choose_clock(const RankTrace &trace, const RankTrace *first) {
    if (trace.rank == 0) return {};
    const auto &samples = trace.clock;
    const bool same_kernel = first != nullptr && !trace.boot.empty() && trace.boot == first->boot;
    std::string measured =
        samples.empty() ? "not measured" : text_of(samples.front()) + " at the start";
    if (samples.size() > 1) measured += ", " + text_of(samples.back()) + " at the end";
    const std::string who =
        fmt::format("clock of rank {} (host {}): {}", trace.rank, trace.host, measured);
    // Times of one clock need no correction, which could only add errors. But even on one kernel a
    // container may have its own clock.
    if (same_kernel && std::ranges::all_of(samples, may_be_zero))
        return {ClockCorrection(), who + "; the times of all ranks are on this clock"};
    if (samples.empty())
        return {ClockCorrection(),
                who + "; ITS TIMES CANNOT BE COMPARED with those of other ranks"};
    const ClockCorrection correction(samples);
    if (samples.size() == 1)
        return {correction, who +
                                "; corrected by this difference. There is no measurement at "
                                "MPI_Finalize, so drift is not corrected"};
    return {correction, fmt::format("{}; corrected, drift {:+.3f} ppm, to within {:.1f} us", who,
                                    correction.drift_ppm(), correction.uncertainty_us())};
}

void correct(RankTrace &trace, const ClockCorrection &clock) {
    for (Json &event : trace.events) {
        if (!event.contains("ts")) continue;
        const double start = event["ts"].get<double>();
        if (event.contains("dur"))
            event["dur"] = clock.apply(start + event["dur"].get<double>()) - clock.apply(start);
        event["ts"] = clock.apply(start);
    }
}

Json merged(const std::vector<RankTrace> &traces) {
    double begin = std::numeric_limits<double>::infinity();
    for (const RankTrace &trace : traces)
        for (const Json &event : trace.events)
            if (event.contains("ts")) begin = std::min(begin, event["ts"].get<double>());
    Json events = Json::array();
    for (const RankTrace &trace : traces) {
        std::vector<Json> of_rank;
        for (Json event : trace.events) {
            event["pid"] = trace.rank;
            if (event.contains("ts"))
                event["ts"] = std::round((event["ts"].get<double>() - begin) * 1000) / 1000;
            if (event.contains("dur"))
                event["dur"] = std::round(event["dur"].get<double>() * 1000) / 1000;
            if (event.contains("id"))
                event["id"] = fmt::format("{}.{}", trace.rank, event["id"].dump());
            if (event.value("ph", "") == "M" && event.value("name", "") == "process_name")
                event["args"]["name"] = fmt::format("rank {} ({})", trace.rank, trace.host);
            of_rank.push_back(std::move(event));
        }
        separate_tracks(of_rank);
        std::move(of_rank.begin(), of_rank.end(), std::back_inserter(events));
        events.push_back({{"ph", "M"},
                          {"name", "process_sort_index"},
                          {"pid", trace.rank},
                          {"args", {{"sort_index", trace.rank}}}});
    }
    return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace cldist::tool
