#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace cldist::tool {

/// One thing that `cldist doctor` looked at.
struct Finding {
    enum class Level {
        ok,
        note,     ///< worth knowing; what to do about it is up to the user
        warning,  ///< works, but hardly as it is meant
        problem,  ///< will hurt
    };

    Level level;
    std::string topic;
    std::string fact;
    std::string advice = {};              ///< what to do; empty if there is nothing to do
    std::vector<std::string> hosts = {};  ///< on which it was found; empty if there is only one

    bool operator==(const Finding &) const = default;
};
using Findings = std::vector<Finding>;

[[nodiscard]] const char *name_of(Finding::Level level);

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

void to_json(nlohmann::json &json, const Finding &finding);
void from_json(const nlohmann::json &json, Finding &finding);

/// The findings of several hosts as one list: what all found alike stands there once, and the rest names its hosts.
[[nodiscard]] Findings joined(const std::vector<std::pair<std::string, Findings>> &hosts);

/// The findings of one host as a shorter list: what several devices have in common ("device 0.0: …", "device 0.1: …") stands
/// there once, with the names of all ("devices 0.0, 0.1: …").
[[nodiscard]] Findings without_repetition(const Findings &findings);

/// One line for people.
[[nodiscard]] std::string line_of(const Finding &finding);

}  // namespace cldist::tool
