#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cldist {

enum class Path { automatic, mapped, pinned, pipelined, shared, direct };
enum class OnError { automatic, event, abort };
enum class Switch { off, on };
enum class HostCopies { automatic, native, staged };
enum class DeviceMemories { automatic, together, apart };
enum class Attach { automatic, program };
enum class View { devices, aggregate };
enum class RemoteType { own, cpu, gpu, accelerator };
enum class HostMode { replicated, central };
enum class LogLevel { error, warning, info, debug };

struct Bytes {
    std::size_t value;
};

/// One process plays one of many.
struct Simulation {
    unsigned processes = 0;  ///< none: it does not
    unsigned rank = 0;
    unsigned per_host = 1;
};

/// How kernels are shared out on an aggregate device.
struct Shares {
    enum class By { automatic, equal, measured, weights };
    By by = By::automatic;
    std::vector<double> weights{};  ///< of the devices, in their order; at least one is above 0
};

/// The settings; base/config.def describes each.
struct Config {
#define CLDIST_SETTING(type, field, name, default_value, comment) type field = default_value;
#include "base/config.def"
#undef CLDIST_SETTING
};

const char *name_of(Path path);

/// "65536", "64k", "4M", "1G": bytes, up to `most`; nothing if the text is none of these.
[[nodiscard]] std::optional<std::size_t> parse_bytes(std::string_view text, std::size_t most);

/// "1024", "1024:17", "1024:17:8": processes, up to 65536, the rank that is played, and how many a host has; nothing if the
/// text is none of these.
[[nodiscard]] std::optional<Simulation> parse_simulation(std::string_view text);

/// "auto", "equal", "measured", or weights as "2,1,1"; nothing if the text is none of these.
[[nodiscard]] std::optional<Shares> parse_shares(std::string_view text);

/// Reads the settings from an environment of "NAME=value" strings. A value that can't be read, and a variable that
/// looks like a misspelt setting, adds a line to `complaints`; the default is used.
Config read_config(const std::vector<std::string_view> &environment, std::vector<std::string> &complaints);

/// A setting with its value, for people.
struct SettingText {
    const char *name;     ///< "CLDIST_PATH"
    std::string value;    ///< in the form in which it is set
    const char *meaning;  ///< as in the manual
};
[[nodiscard]] std::vector<SettingText> settings_of(const Config &config);

/// How many letters must be added, taken away or replaced to make one word of another.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The settings of this process, read once; complaints go to the log.
const Config &config();

}  // namespace cldist
