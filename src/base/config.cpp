#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.hpp"
#include "base/setting_complaints.hpp"

namespace cldist {
namespace {

constexpr std::size_t largest_block = std::size_t{1} << 30U;
constexpr unsigned largest_depth = 64;
constexpr unsigned most_processes = 65536;

template <typename Enum>
using Names = std::span<const std::pair<const char *, Enum>>;

constexpr std::array<std::pair<const char *, Path>, 6> path_names{{{"auto", Path::automatic},
                                                                   {"mapped", Path::mapped},
                                                                   {"pinned", Path::pinned},
                                                                   {"pipelined", Path::pipelined},
                                                                   {"shared", Path::shared},
                                                                   {"direct", Path::direct}}};
constexpr std::array<std::pair<const char *, OnError>, 3> on_error_names{
    {{"auto", OnError::automatic}, {"event", OnError::event}, {"abort", OnError::abort}}};
constexpr std::array<std::pair<const char *, Switch>, 2> switch_names{{{"off", Switch::off}, {"on", Switch::on}}};
constexpr std::array<std::pair<const char *, Attach>, 2> attach_names{
    {{"auto", Attach::automatic}, {"program", Attach::program}}};
constexpr std::array<std::pair<const char *, DeviceMemories>, 3> device_memories_names{
    {{"auto", DeviceMemories::automatic}, {"together", DeviceMemories::together}, {"apart", DeviceMemories::apart}}};
constexpr std::array<std::pair<const char *, HostCopies>, 3> host_copies_names{
    {{"auto", HostCopies::automatic}, {"native", HostCopies::native}, {"staged", HostCopies::staged}}};
constexpr std::array<std::pair<const char *, RemoteType>, 4> remote_type_names{
    {{"own", RemoteType::own},
     {"cpu", RemoteType::cpu},
     {"gpu", RemoteType::gpu},
     {"accelerator", RemoteType::accelerator}}};
constexpr std::array<std::pair<const char *, HostMode>, 2> host_mode_names{
    {{"replicated", HostMode::replicated}, {"central", HostMode::central}}};
constexpr std::array<std::pair<const char *, View>, 2> view_names{
    {{"devices", View::devices}, {"aggregate", View::aggregate}}};
constexpr std::array<std::pair<const char *, Shares::By>, 3> shares_names{
    {{"auto", Shares::By::automatic}, {"equal", Shares::By::equal}, {"measured", Shares::By::measured}}};
constexpr std::array<std::pair<const char *, LogLevel>, 4> log_names{
    {{"error", LogLevel::error}, {"warning", LogLevel::warning}, {"info", LogLevel::info}, {"debug", LogLevel::debug}}};

template <typename Enum>
std::string parse_name(std::string_view text, Enum &value, Names<Enum> names) {
    std::string expected;
    for (const auto &[name, candidate] : names) {
        if (text == name) {
            value = candidate;
            return {};
        }
        expected += fmt::format("{}{}", expected.empty() ? "" : ", ", name);
    }
    return "one of " + expected;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// Each `parse` returns an empty text, or what it expected if it could not read `text`.
std::string parse(std::string_view text, Path &value) { return parse_name<Path>(text, value, path_names); }
std::string parse(std::string_view text, OnError &value) { return parse_name<OnError>(text, value, on_error_names); }
std::string parse(std::string_view text, Switch &value) {
    if (text == "1" || text == "0") text = text == "1" ? "on" : "off";
    return parse_name<Switch>(text, value, switch_names);
}
std::string parse(std::string_view text, Attach &value) { return parse_name<Attach>(text, value, attach_names); }
std::string parse(std::string_view text, DeviceMemories &value) {
    return parse_name<DeviceMemories>(text, value, device_memories_names);
}
std::string parse(std::string_view text, HostCopies &value) {
    return parse_name<HostCopies>(text, value, host_copies_names);
}
std::string parse(std::string_view text, RemoteType &value) {
    return parse_name<RemoteType>(text, value, remote_type_names);
}
std::string parse(std::string_view text, HostMode &value) { return parse_name<HostMode>(text, value, host_mode_names); }
std::string parse(std::string_view text, View &value) { return parse_name<View>(text, value, view_names); }
std::string parse(std::string_view text, LogLevel &value) { return parse_name<LogLevel>(text, value, log_names); }

std::string parse(std::string_view text, std::string &value) {
    value = text;
    return {};
}

std::string parse(std::string_view text, unsigned &value) {
    const auto number = parse_number<unsigned>(text);
    if (!number || *number > largest_depth) return fmt::format("a number from 0 to {}", largest_depth);
    value = *number;
    return {};
}

std::string parse(std::string_view text, double &value) {
    const auto number = parse_number<double>(text);
    if (!number || !std::isfinite(*number) || *number < 0) return "a number of seconds, 0 or more";
    value = *number;
    return {};
}

std::string parse(std::string_view text, Bytes &value) {
    const auto bytes = parse_bytes(text, largest_block);
    if (!bytes) return fmt::format("a number of bytes up to {}, such as 65536, 64k or 4M", largest_block);
    value.value = *bytes;
    return {};
}

std::string parse(std::string_view text, Shares &value) {
    const auto shares = parse_shares(text);
    if (!shares)
        return "auto, equal, measured, or weights of the devices such as 2,1,1, of which at least one is above 0";
    value = *shares;
    return {};
}

std::string parse(std::string_view text, Simulation &value) {
    if (text.empty()) return {};
    const auto simulation = parse_simulation(text);
    if (!simulation) return fmt::format("PROCESSES[:RANK[:PER_HOST]] with at most {} processes", most_processes);
    value = *simulation;
    return {};
}

template <typename Enum>
std::string text_of(Enum value, Names<Enum> names) {
    for (const auto &[name, candidate] : names)
        if (candidate == value) return name;
    return {};
}

// Each `text_of` is the inverse of `parse`.
std::string text_of(Path value) { return text_of<Path>(value, path_names); }
std::string text_of(Attach value) { return text_of<Attach>(value, attach_names); }
std::string text_of(DeviceMemories value) { return text_of<DeviceMemories>(value, device_memories_names); }
std::string text_of(HostCopies value) { return text_of<HostCopies>(value, host_copies_names); }
std::string text_of(RemoteType value) { return text_of<RemoteType>(value, remote_type_names); }
std::string text_of(HostMode value) { return text_of<HostMode>(value, host_mode_names); }
std::string text_of(View value) { return text_of<View>(value, view_names); }
std::string text_of(OnError value) { return text_of<OnError>(value, on_error_names); }
std::string text_of(Switch value) { return text_of<Switch>(value, switch_names); }
std::string text_of(LogLevel value) { return text_of<LogLevel>(value, log_names); }
std::string text_of(const std::string &value) { return value; }
std::string text_of(unsigned value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const Simulation &value) {
    return value.processes == 0 ? "" : fmt::format("{}:{}:{}", value.processes, value.rank, value.per_host);
}
std::string text_of(const Shares &value) {
    if (value.by != Shares::By::weights) return text_of<Shares::By>(value.by, shares_names);
    return fmt::format("{}", fmt::join(value.weights, ","));
}
std::string text_of(Bytes value) {
    for (const auto &[shift, suffix] : {std::pair{30U, "G"}, std::pair{20U, "M"}, std::pair{10U, "k"}})
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
    // Other programs use CLDIST_ variables, too. Only a near miss counts as a misspelling.
    return best <= 2 ? nearest : std::string_view{};
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

const char *name_of(Path path) { return path_names.at(static_cast<std::size_t>(path)).first; }

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
            const bool possible = simulation.processes != 0 && simulation.processes <= most_processes &&
                                  simulation.rank < simulation.processes && simulation.per_host != 0;
            return possible ? std::optional(simulation) : std::nullopt;
        }
        text.remove_prefix(colon + 1);
    }
    return std::nullopt;
}

std::optional<Shares> parse_shares(std::string_view text) {
    Shares shares;
    if (parse_name<Shares::By>(text, shares.by, shares_names).empty()) return shares;
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

Config read_config(const std::vector<std::string_view> &environment, std::vector<std::string> &complaints) {
    Config result;
    for (const std::string_view entry : environment) {
        const std::size_t equals = entry.find('=');
        const std::string_view name = entry.substr(0, equals);
        if (!name.starts_with("CLDIST_") || equals == std::string_view::npos) continue;
        const std::string_view text = entry.substr(equals + 1);
        bool known = false;
#define CLDIST_SETTING(type, field, setting, default_value, comment)                                             \
    if (name == setting) {                                                                                       \
        known = true;                                                                                            \
        if (const std::string expected = parse(text, result.field); !expected.empty())                           \
            complaints.push_back(fmt::format("{}={}: expected {}; using the default", setting, text, expected)); \
    }
#include "base/config.def"
#undef CLDIST_SETTING
        if (known) continue;
        if (const std::string_view nearest = nearest_setting(name); !nearest.empty())
            complaints.push_back(fmt::format("{} is not a setting; did you mean {}?", name, nearest));
    }
    return result;
}

std::vector<SettingText> settings_of(const Config &config) {
    return {
#define CLDIST_SETTING(type, field, setting, default_value, comment) {setting, text_of(config.field), comment},
#include "base/config.def"
#undef CLDIST_SETTING
    };
}

namespace {

struct Settings {
    Settings() {
        std::vector<std::string_view> environment;
        for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
        config = read_config(environment, complaints.lines);
        set_log_level(config.log);
        complaints.logged = is_first_of_job();
        if (!complaints.logged) return;
        for (const std::string &line : complaints.lines) log_warning("{}", line);
    }

    // Returns true if the launcher's environment does not give a rank.
    static bool is_first_of_job() {
        for (const char *const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
            if (const char *const rank = std::getenv(name); rank != nullptr) return std::string_view(rank) == "0";
        return true;
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

const SettingComplaints &setting_complaints() { return settings().complaints; }

}  // namespace cldist
