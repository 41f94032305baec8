#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// One fact that `cldist doctor` examined.
struct Finding {
    enum class Level {
        ok,
        note,     ///< information; whether to act on it is up to the user
        warning,  ///< works, but not as intended
        problem,  ///< will cause errors or bad performance
    };

    Level level;
    std::string topic;
    std::string fact;
    std::string advice = {};  ///< what the user should do; empty if nothing
    /// the hosts with this finding; empty if there is only one host
    std::vector<std::string> hosts = {};

    bool operator==(const Finding &) const = default;
};
using Findings = std::vector<Finding>;

NLOHMANN_JSON_SERIALIZE_ENUM(Finding::Level, {{Finding::Level::ok, "ok"},
                                              {Finding::Level::note, "note"},
                                              {Finding::Level::warning, "WARNING"},
                                              {Finding::Level::problem, "PROBLEM"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, level, topic, fact, advice, hosts)

inline std::string name_of(Finding::Level level) { return nlohmann::json(level); }

inline Finding ok(std::string topic, std::string fact) {
    return {Finding::Level::ok, std::move(topic), std::move(fact)};
}
inline Finding note(std::string topic, std::string fact, std::string advice) {
    return {Finding::Level::note, std::move(topic), std::move(fact), std::move(advice)};
}
inline Finding warning(std::string topic, std::string fact, std::string advice) {
    return {Finding::Level::warning, std::move(topic), std::move(fact), std::move(advice)};
}
inline Finding problem(std::string topic, std::string fact, std::string advice) {
    return {Finding::Level::problem, std::move(topic), std::move(fact), std::move(advice)};
}

inline void append(Findings &all, Findings more) {
    all.insert(all.end(), more.begin(), more.end());
}

/// A number with its unit, such as "1 rank" or "2 ranks".
[[nodiscard]] std::string counted(std::size_t count, const char *unit);

/// Joins the findings of several hosts. A finding common to all hosts appears once; other findings
/// list their hosts.
[[nodiscard]] Findings joined(const std::vector<std::pair<std::string, Findings>> &hosts);

/// Shortens the findings of one host. A finding that several devices share ("device 0.0: …",
/// "device 0.1: …") appears once, with all devices ("devices 0.0, 0.1: …").
[[nodiscard]] Findings without_repetition(const Findings &findings);

/// The finding as a line of text.
[[nodiscard]] std::string line_of(const Finding &finding);

}  // namespace cldist::tool
