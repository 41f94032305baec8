#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cldist {

enum class Path { automatic, mapped, staged, chunked, shared, peer_to_peer, kernel, device };
enum class OnError { automatic, event, abort };
enum class Switch { off, on };
enum class HostCopies { automatic, native, staged };
enum class DeviceMemories { automatic, together, apart };
enum class Attach { automatic, program };
enum class View { devices, aggregate };
enum class HostMode { automatic, replicated, central };
enum class LogLevel { error, warning, info, debug };

struct Bytes {
    std::size_t value;
};

/// This process simulates one of many processes.
struct Simulation {
    unsigned processes = 0;  ///< 0: no simulation
    unsigned rank = 0;
    unsigned per_host = 1;
};

/// How the launches of kernels are distributed over the devices of a single virtual device.
struct Shares {
    enum class By { automatic, equal, measured, weights };
    By by = By::automatic;
    /// One per device, in the devices' order. At least one is above 0.
    std::vector<double> weights{};
};

/// The settings. base/config.def describes each.
struct Config {
#define CLDIST_SETTING(type, field, name, default_value, comment) type field = default_value;
#include "base/config.def"
#undef CLDIST_SETTING
};

const char *name_of(Path path);
/// Returns the current name of a path that may have its old name.
std::string_view current_path(std::string_view name);

/// Reads a number of bytes such as "65536", "64k", "4M" or "1G". Returns nothing if the text has
/// another form or the value is above `most`.
[[nodiscard]] std::optional<std::size_t> parse_bytes(std::string_view text, std::size_t most);

/// Reads "1024", "1024:17" or "1024:17:8": the number of processes (at most 65536), the simulated
/// rank, and the processes per host. Returns nothing if the text has another form.
[[nodiscard]] std::optional<Simulation> parse_simulation(std::string_view text);

/// Reads "auto", "equal", "measured", or weights such as "2,1,1". Returns nothing if the text has
/// another form.
[[nodiscard]] std::optional<Shares> parse_shares(std::string_view text);

/// Reads the settings from an environment of "NAME=value" strings. An unreadable value, or a
/// variable that looks like a misspelt setting, adds a line to `complaints`. The default then
/// applies.
Config read_config(const std::vector<std::string_view> &environment,
                   std::vector<std::string> &complaints);

/// A setting with its value as text.
struct SettingText {
    const char *name;     ///< for example "CLDIST_PATH"
    std::string value;    ///< in the syntax that the setting accepts
    const char *meaning;  ///< the description in the manual; empty if the setting is hidden
};
[[nodiscard]] std::vector<SettingText> settings_of(const Config &config);

/// The number of letters to add, remove or replace to turn `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The settings of this process. The first call reads them and logs complaints.
const Config &config();

/// The rank in the launcher's environment; 0 if there is none.
[[nodiscard]] int launched_rank();

/// The errors in the settings of this process, and whether config() has logged them. It does not if
/// the launcher's environment contains a rank other than 0.
struct SettingComplaints {
    std::vector<std::string> lines;
    bool logged = false;
};
const SettingComplaints &setting_complaints();

}  // namespace cldist
