#include "finding.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace cldist::tool {

std::string counted(std::size_t count, const char *unit) {
    return fmt::format("{} {}{}", count, unit, count == 1 ? "" : "s");
}

Findings joined(const std::vector<std::pair<std::string, Findings>> &hosts) {
    Findings all;
    for (const auto &[host, findings] : hosts) {
        auto place = all.begin();
        for (const Finding &finding : findings) {
            const auto same = std::ranges::find_if(all, [&](const Finding &other) {
                return other.level == finding.level && other.topic == finding.topic &&
                       other.fact == finding.fact && other.advice == finding.advice;
            });
            if (same != all.end()) {
                same->hosts.push_back(host);
                place = std::next(same);
                continue;
            }
            // Inserts the finding after other hosts' findings on its topic; without such findings,
            // at its position among its own host's findings.
            const auto last = std::find_if(all.rbegin(), all.rend(), [&](const Finding &other) {
                return other.topic == finding.topic;
            });
            place = all.insert(last == all.rend() ? place : last.base(), finding);
            place->hosts = {host};
            ++place;
        }
    }
    for (Finding &finding : all)
        if (finding.hosts.size() == hosts.size()) finding.hosts.clear();
    return all;
}

Findings without_repetition(const Findings &findings) {
    // "device 0.0: fact" -> ("0.0", "fact")
    constexpr std::string_view prefix = "device ";
    const auto split =
        [&](const Finding &finding) -> std::optional<std::pair<std::string, std::string>> {
        const std::size_t colon = finding.fact.find(": ");
        if (!finding.fact.starts_with(prefix) || colon == std::string::npos) return std::nullopt;
        return std::pair(finding.fact.substr(prefix.size(), colon - prefix.size()),
                         finding.fact.substr(colon + 2));
    };
    std::vector<Finding> all;
    std::vector<std::vector<std::string>> devices;  // the devices of each finding
    for (const Finding &finding : findings) {
        const auto parts = split(finding);
        const auto same = std::ranges::find_if(all, [&](const Finding &other) {
            return parts && other.level == finding.level && other.topic == finding.topic &&
                   other.advice == finding.advice && split(other) &&
                   split(other)->second == parts->second;
        });
        if (same == all.end()) {
            all.push_back(finding);
            devices.push_back(parts ? std::vector{parts->first} : std::vector<std::string>{});
        } else {
            devices[static_cast<std::size_t>(same - all.begin())].push_back(parts->first);
        }
    }
    for (std::size_t i = 0; i < all.size(); ++i)
        if (devices[i].size() > 1)
            all[i].fact =
                fmt::format("devices {}: {}", fmt::join(devices[i], ", "), split(all[i])->second);
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
