#include "settings.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/status.hpp"
#include "cluster/world/device_choice.hpp"
#include "run_plan.hpp"
#include "terminal.hpp"

namespace cldist::tool {

Config read_settings(const std::vector<std::string_view> &environment,
                     std::vector<std::string> &complaints) {
    Config config = read_config(environment, complaints);
    try {
        if (config.devices != "auto") cluster::parse_device_choice(config.devices);
    } catch (const Error &error) {
        complaints.push_back(error.status().message);
        config.devices = Config{}.devices;
    }
    if (const std::string word = wrong_group(config.host_wrap); !word.empty()) {
        complaints.push_back(
            fmt::format("CLDIST_HOST_WRAP={}: \"{}\" is invalid; expected off, or some of {}",
                        config.host_wrap, word, Config{}.host_wrap));
        config.host_wrap = Config{}.host_wrap;
    }
    return config;
}

std::vector<std::string_view> environment_entries() {
    std::vector<std::string_view> entries;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        entries.emplace_back(*entry);
    return entries;
}

int print_settings(const std::vector<std::string_view> &environment) {
    std::vector<std::string> complaints;
    std::vector<SettingText> settings = settings_of(read_settings(environment, complaints));
    std::erase_if(settings, [](const SettingText &setting) { return *setting.meaning == 0; });
    std::size_t widest = 0;
    for (const SettingText &setting : settings)
        widest = std::max(widest, std::string_view(setting.name).size() + 1 + setting.value.size());
    for (const SettingText &setting : settings) {
        const auto begins = [&](std::string_view end) {
            return [prefix = fmt::format("{}{}", setting.name, end)](std::string_view text) {
                return text.starts_with(prefix);
            };
        };
        const auto renamed = [](std::string_view text) {
            return text.find(" is now called ") != std::string_view::npos;
        };
        const auto renamed_to_this = [&](std::string_view text) {
            return text.find(fmt::format(" is now called {}=", setting.name)) !=
                   std::string_view::npos;
        };
        const auto refuses = [&](std::string_view text) {
            return !renamed(text) && (begins("=")(text) || begins(" ")(text));
        };
        const bool set = std::ranges::any_of(environment, begins("=")) ||
                         std::ranges::any_of(complaints, renamed_to_this);
        const bool refused = std::ranges::any_of(complaints, refuses);
        const char *const origin = refused ? "default; the environment's value is invalid"
                                   : set   ? "environment"
                                           : "default";
        const std::string text = fmt::format("{}={}", setting.name, setting.value);
        fmt::print("{}{:{}}  {}\n", coloured(text, set && !refused ? Colour::bold : Colour::none),
                   "", widest - text.size(), origin);
    }
    for (const std::string &complaint : complaints)
        fmt::print("{}: {}\n", coloured("PROBLEM", Colour::red), complaint);
    return complaints.empty() ? 0 : 1;
}

}  // namespace cldist::tool
