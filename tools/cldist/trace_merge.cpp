#include "trace_merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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
    return std::abs(static_cast<double>(sample.offset_ns)) <= static_cast<double>(sample.uncertainty_ns);
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
    uncertainty_us_ = microseconds(static_cast<double>(std::max(first.uncertainty_ns, last.uncertainty_ns)));
}

ClockChoice choose_clock(const RankTrace &trace, const RankTrace *first) {
    if (trace.rank == 0) return {};
    const auto &samples = trace.clock;
    const bool same_kernel = first != nullptr && !trace.boot.empty() && trace.boot == first->boot;
    std::string measured = samples.empty() ? "not measured" : text_of(samples.front()) + " at the start";
    if (samples.size() > 1) measured += ", " + text_of(samples.back()) + " at the end";
    const std::string who = fmt::format("clock of rank {} (host {}): {}", trace.rank, trace.host, measured);
    // Times of one clock need no correction, which could only add errors. But even on one kernel a
    // container may have its own clock.
    if (same_kernel && std::all_of(samples.begin(), samples.end(), may_be_zero))
        return {ClockCorrection(), who + "; the times of all ranks are on this clock"};
    if (samples.empty()) return {ClockCorrection(), who + "; ITS TIMES CANNOT BE COMPARED with those of other ranks"};
    const ClockCorrection correction(samples);
    if (samples.size() == 1)
        return {
            correction,
            who + "; corrected by this difference. There is no measurement at MPI_Finalize, so drift is not corrected"};
    return {correction, fmt::format("{}; corrected, drift {:+.3f} ppm, to within {:.1f} us", who,
                                    correction.drift_ppm(), correction.uncertainty_us())};
}

void correct(RankTrace &trace, const ClockCorrection &clock) {
    for (Json &event : trace.events) {
        if (!event.contains("ts")) continue;
        const double start = event["ts"].get<double>();
        if (event.contains("dur")) event["dur"] = clock.apply(start + event["dur"].get<double>()) - clock.apply(start);
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
        for (Json event : trace.events) {
            event["pid"] = trace.rank;
            if (event.contains("ts")) event["ts"] = std::round((event["ts"].get<double>() - begin) * 1000) / 1000;
            if (event.contains("dur")) event["dur"] = std::round(event["dur"].get<double>() * 1000) / 1000;
            if (event.contains("id")) event["id"] = fmt::format("{}.{}", trace.rank, event["id"].dump());
            if (event.value("ph", "") == "M" && event.value("name", "") == "process_name")
                event["args"]["name"] = fmt::format("rank {} ({})", trace.rank, trace.host);
            events.push_back(std::move(event));
        }
        events.push_back(
            {{"ph", "M"}, {"name", "process_sort_index"}, {"pid", trace.rank}, {"args", {{"sort_index", trace.rank}}}});
    }
    return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace cldist::tool
