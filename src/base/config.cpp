#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.hpp"

namespace cldist {
namespace {

constexpr std::size_t largest_block = std::size_t{1} << 30U;
constexpr unsigned largest_depth = 64;
constexpr unsigned most_processes = 65536;

template <typename Type>
concept Enumeration = std::is_enum_v<Type>;

/// The names of an enumeration's values in settings, in their order.
using Names = std::initializer_list<const char *>;
template <typename Enum>
constexpr Names names{};

template <>
constexpr Names names<Path>{"auto",   "mapped",       "staged", "chunked",
                            "shared", "peer-to-peer", "kernel", "device"};
template <>
constexpr Names names<OnError>{"auto", "event", "abort"};
template <>
constexpr Names names<Switch>{"off", "on"};
template <>
constexpr Names names<Attach>{"auto", "program"};
template <>
constexpr Names names<DeviceMemories>{"auto", "together", "apart"};
template <>
constexpr Names names<HostCopies>{"auto", "native", "staged"};
template <>
constexpr Names names<HostMode>{"auto", "replicated", "central"};
template <>
constexpr Names names<View>{"devices", "aggregate"};
template <>
constexpr Names names<Shares::By>{"auto", "equal", "measured"};
template <>
constexpr Names names<LogLevel>{"error", "warning", "info", "debug"};

/// Old names, which work with a warning for one version.
struct Renamed {
    std::string_view old, now;
};
constexpr Renamed renamed_settings[]{{"CLDIST_PINNED_MAX", "CLDIST_STAGED_MAX"},
                                     {"CLDIST_META", "CLDIST_ACCESS_FUNCTIONS"}};
constexpr Renamed renamed_paths[]{
    {"pinned", "staged"}, {"pipelined", "chunked"}, {"direct", "peer-to-peer"}};

std::string_view current_name(std::string_view name, std::span<const Renamed> renamed) {
    for (const Renamed &entry : renamed)
        if (name == entry.old) return entry.now;
    return name;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// Each `parse` returns an empty text, or what it expected if it could not read `text`.
template <Enumeration Enum>
std::string parse(std::string_view text, Enum &value) {
    const auto *const found = std::find(names<Enum>.begin(), names<Enum>.end(), text);
    if (found == names<Enum>.end()) return fmt::format("one of {}", fmt::join(names<Enum>, ", "));
    value = static_cast<Enum>(found - names<Enum>.begin());
    return {};
}

std::string parse(std::string_view text, Switch &value) {
    if (text == "1" || text == "0") text = text == "1" ? "on" : "off";
    return parse<Switch>(text, value);
}

std::string parse(std::string_view text, std::string &value) {
    value = text;
    return {};
}

std::string parse(std::string_view text, unsigned &value) {
    const auto number = parse_number<unsigned>(text);
    if (!number || *number > largest_depth)
        return fmt::format("a number from 0 to {}", largest_depth);
    value = *number;
    return {};
}

std::string parse(std::string_view text, double &value) {
    const auto number = parse_number<double>(text);
    // Times in nanoseconds have 64 bits.
    constexpr double most = 1e9;
    if (!number || !(*number >= 0 && *number <= most)) return "a number of seconds from 0 to 1e9";
    value = *number;
    return {};
}

std::string parse(std::string_view text, Bytes &value) {
    const auto bytes = parse_bytes(text, largest_block);
    if (!bytes)
        return fmt::format("a number of bytes up to {}, such as 65536, 64k or 4M", largest_block);
    value.value = *bytes;
    return {};
}

std::string parse(std::string_view text, Shares &value) {
    const auto shares = parse_shares(text);
    if (!shares)
        return "auto, equal, measured, or weights of the devices such as 2,1,1, of which at least "
               "one is above 0";
    value = *shares;
    return {};
}

std::string parse(std::string_view text, Simulation &value) {
    if (text.empty()) return {};
    const auto simulation = parse_simulation(text);
    if (!simulation)
        return fmt::format("PROCESSES[:RANK[:PER_HOST]] with at most {} processes", most_processes);
    value = *simulation;
    return {};
}

// Each `text_of` is the inverse of `parse`.
template <Enumeration Enum>
std::string text_of(Enum value) {
    return names<Enum>.begin()[static_cast<std::size_t>(value)];
}
std::string text_of(const std::string &value) { return value; }
std::string text_of(unsigned value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const Simulation &value) {
    return value.processes == 0
               ? ""
               : fmt::format("{}:{}:{}", value.processes, value.rank, value.per_host);
}
std::string text_of(const Shares &value) {
    if (value.by != Shares::By::weights) return text_of(value.by);
    return fmt::format("{}", fmt::join(value.weights, ","));
}
std::string text_of(Bytes value) {
    for (const auto &[shift, suffix] :
         {std::pair{30U, "G"}, std::pair{20U, "M"}, std::pair{10U, "k"}})
        if (value.value != 0 && value.value % (std::size_t{1} << shift) == 0)
            return fmt::format("{}{}", value.value >> shift, suffix);
    return fmt::format("{}", value.value);
}

std::string_view nearest_setting(std::string_view name) {
    std::string_view nearest;
    std::size_t best = std::numeric_limits<std::size_t>::max();
#define CLDIST_SETTING(type, field, setting, default_value, comment)                  \
    if (const std::size_t distance = edit_distance(name, setting); distance < best) { \
        best = distance;                                                              \
        nearest = setting;                                                            \
    }
#include "base/config.def"
#undef CLDIST_SETTING
    // Other programs use CLDIST_ variables, too. Only a near miss counts as a misspelling. At
    // most half of a short name may differ.
    const bool near = best <= 2 && 2 * best <= nearest.size() - std::string_view("CLDIST_").size();
    return near ? nearest : std::string_view{};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

std::string_view current_path(std::string_view name) { return current_name(name, renamed_paths); }

const char *name_of(Path path) { return names<Path>.begin()[static_cast<std::size_t>(path)]; }

std::optional<std::size_t> parse_bytes(std::string_view text, std::size_t most) {
    if (text.empty()) return std::nullopt;
    unsigned shift = 0;
    switch (text.back()) {
        case 'k':
        case 'K': shift = 10; break;
        case 'm':
        case 'M': shift = 20; break;
        case 'g':
        case 'G': shift = 30; break;
        default: break;
    }
    if (shift != 0) text.remove_suffix(1);
    const auto number = parse_number<std::size_t>(text);
    if (!number || *number > (most >> shift)) return std::nullopt;
    return *number << shift;
}

std::optional<Simulation> parse_simulation(std::string_view text) {
    Simulation simulation;
    for (unsigned *const part : {&simulation.processes, &simulation.rank, &simulation.per_host}) {
        const std::size_t colon = text.find(':');
        const auto number = parse_number<unsigned>(text.substr(0, colon));
        if (!number) return std::nullopt;
        *part = *number;
        if (colon == std::string_view::npos) {
            const bool possible =
                simulation.processes != 0 && simulation.processes <= most_processes &&
                simulation.rank < simulation.processes && simulation.per_host != 0;
            return possible ? std::optional(simulation) : std::nullopt;
        }
        text.remove_prefix(colon + 1);
    }
    return std::nullopt;
}

std::optional<Shares> parse_shares(std::string_view text) {
    Shares shares;
    if (parse(text, shares.by).empty()) return shares;
    shares.by = Shares::By::weights;
    double sum = 0;
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
        comma = text.find(',');
        const auto weight = parse_number<double>(text.substr(0, comma));
        if (!weight || !std::isfinite(*weight) || *weight < 0) return std::nullopt;
        sum += *weight;
        shares.weights.push_back(*weight);
        if (comma != std::string_view::npos) text.remove_prefix(comma + 1);
    }
    return sum > 0 && std::isfinite(sum) ? std::optional(shares) : std::nullopt;
}

Config read_config(const std::vector<std::string_view> &environment,
                   std::vector<std::string> &complaints) {
    Config result;
    for (const std::string_view entry : environment) {
        const std::size_t equals = entry.find('=');
        const std::string_view written = entry.substr(0, equals);
        if (!written.starts_with("CLDIST_") || equals == std::string_view::npos) continue;
        const std::string_view value = entry.substr(equals + 1);
        const std::string_view name = current_name(written, renamed_settings);
        const std::string_view text = name == "CLDIST_PATH" ? current_path(value) : value;
        if (name != written || text != value)
            complaints.push_back(fmt::format(
                "{}={} is now called {}={}; the next version will not know the old name", written,
                value, name, text));
        // The current name takes precedence, in any order of the environment.
        if (name != written && std::ranges::any_of(environment, [&](std::string_view other) {
                return other.starts_with(name) && other.substr(name.size()).starts_with('=');
            }))
            continue;
        bool known = false;
#define CLDIST_SETTING(type, field, setting, default_value, comment)                            \
    if (name == setting) {                                                                      \
        known = true;                                                                           \
        if (const std::string expected = parse(text, result.field); !expected.empty())          \
            complaints.push_back(                                                               \
                fmt::format("{}={}: expected {}; using the default", setting, text, expected)); \
    }
#include "base/config.def"
#undef CLDIST_SETTING
        if (known) continue;
        if (const std::string_view nearest = nearest_setting(name); !nearest.empty())
            complaints.push_back(
                fmt::format("{} is not a setting; did you mean {}?", name, nearest));
    }
    return result;
}

std::vector<SettingText> settings_of(const Config &config) {
    return {
#define CLDIST_SETTING(type, field, setting, default_value, comment) \
    {setting, text_of(config.field), comment},
#include "base/config.def"
#undef CLDIST_SETTING
    };
}

namespace {

struct Settings {
    Settings() {
        std::vector<std::string_view> environment;
        for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry)
            environment.emplace_back(*entry);
        config = read_config(environment, complaints.lines);
        set_log_level(config.log);
        complaints.logged = launched_rank() == 0;
        if (!complaints.logged) return;
        for (const std::string &line : complaints.lines) log_warning("{}", line);
    }

    Config config;
    SettingComplaints complaints;
};

const Settings &settings() {
    static const Settings read;
    return read;
}

}  // namespace

const Config &config() { return settings().config; }

int launched_rank() {
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char *const rank = std::getenv(name)) return std::atoi(rank);
    return 0;
}

const SettingComplaints &setting_complaints() { return settings().complaints; }

}  // namespace cldist
