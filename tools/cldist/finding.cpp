#include "finding.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

constexpr std::array<std::pair<Finding::Level, const char *>, 3> level_names{
    {{Finding::Level::ok, "ok"}, {Finding::Level::note, "note"}, {Finding::Level::problem, "PROBLEM"}}};

}  // namespace

const char *name_of(Finding::Level level) { return level_names.at(static_cast<std::size_t>(level)).second; }

void to_json(nlohmann::json &json, const Finding &finding) {
    json = {{"level", name_of(finding.level)},
            {"topic", finding.topic},
            {"fact", finding.fact},
            {"advice", finding.advice},
            {"hosts", finding.hosts}};
}

void from_json(const nlohmann::json &json, Finding &finding) {
    const auto level = json.at("level").get<std::string>();
    for (const auto &[value, name] : level_names)
        if (level == name) finding.level = value;
    json.at("topic").get_to(finding.topic);
    json.at("fact").get_to(finding.fact);
    json.at("advice").get_to(finding.advice);
    json.at("hosts").get_to(finding.hosts);
}

Findings joined(const std::vector<std::pair<std::string, Findings>> &hosts) {
    Findings all;
    for (const auto &[host, findings] : hosts) {
        auto place = all.begin();
        for (const Finding &finding : findings) {
            const auto same = std::find_if(all.begin(), all.end(), [&](const Finding &other) {
                return other.level == finding.level && other.topic == finding.topic && other.fact == finding.fact &&
                       other.advice == finding.advice;
            });
            if (same != all.end()) {
                same->hosts.push_back(host);
                place = std::next(same);
                continue;
            }
            // Next to what others found on the same topic, or else where it stood on its own host.
            const auto last = std::find_if(all.rbegin(), all.rend(),
                                           [&](const Finding &other) { return other.topic == finding.topic; });
            place = all.insert(last == all.rend() ? place : last.base(), finding);
            place->hosts = {host};
            ++place;
        }
    }
    for (Finding &finding : all)
        if (finding.hosts.size() == hosts.size()) finding.hosts.clear();
    return all;
}

std::string line_of(const Finding &finding) {
    std::string text = fmt::format("{:<8} {}", name_of(finding.level), finding.topic);
    if (!finding.hosts.empty()) text += fmt::format(" ({})", fmt::join(finding.hosts, ", "));
    text += ": " + finding.fact;
    if (!finding.advice.empty()) text += " -> " + finding.advice;
    return text;
}

}  // namespace cldist::tool
