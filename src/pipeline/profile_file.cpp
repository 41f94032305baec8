#include "pipeline/profile_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "base/config.hpp"
#include "base/job.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "base/text_file.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t format_version = 1;

std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return result + '"';
}

[[noreturn]] void damaged(const toml::node &node, const std::string &what) {
    throw Error(CL_INVALID_VALUE, fmt::format("line {}: {}", node.source().begin.line, what));
}

// The value of a required key. `expected` describes the type in the error message.
template <typename T>
T value_of(const toml::table &table, std::string_view key, const char *expected) {
    const toml::node *const node = table.get(key);
    if (node == nullptr) damaged(table, fmt::format("{} is missing", key));
    const auto value = node->value<T>();
    if (!value) damaged(*node, fmt::format("{} is not {}", key, expected));
    return *value;
}

std::string text_of(const toml::table &table, std::string_view key) {
    return value_of<std::string>(table, key, "a text");
}

std::size_t count_of(const toml::table &table, std::string_view key, std::int64_t least,
                     std::int64_t most) {
    const auto value = value_of<std::int64_t>(table, key, "a whole number");
    if (value < least || value > most)
        damaged(*table.get(key),
                fmt::format("{} is {}; expected {} to {}", key, value, least, most));
    return static_cast<std::size_t>(value);
}

double number_of(const toml::node &node, std::string_view what) {
    const auto value = node.value<double>();
    if (!value || !(*value >= 0) || *value > 1e12)
        damaged(node, fmt::format("{} is not a number of at least 0", what));
    return *value;
}

const toml::array &list_of(const toml::table &table, std::string_view key) {
    const toml::node *const node = table.get(key);
    if (node == nullptr) damaged(table, fmt::format("{} is missing", key));
    if (node->as_array() == nullptr) damaged(*node, fmt::format("{} is not a list", key));
    return *node->as_array();
}

const toml::table &table_of(const toml::node &node, std::string_view what) {
    if (node.as_table() == nullptr) damaged(node, fmt::format("{} is not a table", what));
    return *node.as_table();
}

Way way_of(const toml::table &table) {
    Way way;
    const std::string path = text_of(table, "path");
    const auto named = [&](Path candidate) { return current_path(path) == name_of(candidate); };
    constexpr std::array paths{Path::mapped, Path::staged, Path::chunked, Path::shared,
                               Path::peer_to_peer};
    const auto *const found = std::find_if(paths.begin(), paths.end(), named);
    way.eager = path == "whole";
    if (!way.eager && found == paths.end())
        damaged(
            *table.get("path"),
            fmt::format(
                "path is \"{}\"; expected whole, mapped, staged, chunked, shared or peer-to-peer",
                path));
    if (!way.eager) way.path = *found;
    way.maps = value_of<bool>(table, "maps", "true or false");
    if (way.eager) {
        way.path = way.maps ? Path::mapped : Path::staged;
        return way;
    }
    const bool in_blocks = way.path != Path::staged;
    const bool either = way.path == Path::chunked || way.path == Path::shared;
    if ((way.path == Path::mapped) != way.maps && !either)
        damaged(*table.get("maps"), fmt::format("maps is {} on path {}", way.maps, path));
    way.block = count_of(table, "block", in_blocks ? 1 : 0, std::int64_t{1} << 30);
    way.depth = static_cast<unsigned>(count_of(table, "depth", 1, 64));
    return way;
}

Curve curve_of(const toml::table &table) {
    Curve curve{way_of(table), {}};
    const toml::array &sizes = list_of(table, "bytes");
    const toml::array &times = list_of(table, "microseconds");
    if (sizes.size() != times.size() || sizes.empty())
        damaged(sizes,
                fmt::format("bytes has {} numbers, but microseconds has {}; expected equal numbers",
                            sizes.size(), times.size()));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto size = sizes[i].value<std::int64_t>();
        const auto before = curve.points.empty() ? std::size_t{0} : curve.points.back().size;
        if (!size || *size <= 0 || static_cast<std::size_t>(*size) <= before)
            damaged(sizes[i], "bytes is not a list of increasing whole numbers");
        const double seconds = number_of(times[i], "microseconds") * 1e-6;
        if (seconds == 0) damaged(times[i], "microseconds is 0");
        curve.points.push_back({static_cast<std::size_t>(*size), seconds});
    }
    return curve;
}

Profile profile_of(const toml::table &table) {
    const auto version = value_of<std::int64_t>(table, "version", "a whole number");
    if (version != format_version)
        damaged(*table.get("version"),
                fmt::format("version is {}; expected {}", version, format_version));
    Profile profile;
    if (table.get("system") == nullptr) damaged(table, "system is missing");
    const toml::table &system = table_of(*table.get("system"), "system");
    profile.system = {text_of(system, "host"), text_of(system, "device"), text_of(system, "driver"),
                      text_of(system, "mpi")};
    if (const toml::node *const routes = table.get("route"); routes != nullptr) {
        for (const auto &[key, node] : table_of(*routes, "route")) {
            std::size_t route = 0;
            while (route < route_count && key.str() != key_of(static_cast<Route>(route))) ++route;
            if (route == route_count) damaged(node, fmt::format("unknown route \"{}\"", key.str()));
            const toml::table &measured = table_of(node, key.str());
            Profile::Measurement measurement{
                text_of(measured, "when"), text_of(measured, "between"), {}};
            for (const toml::node &way : list_of(measured, "way"))
                measurement.curves.push_back(curve_of(table_of(way, "way")));
            if (measurement.curves.empty()) damaged(node, "way is empty");
            profile.routes.at(route) = std::move(measurement);
        }
    }
    if (table.get("ceiling") != nullptr) {
        for (const toml::node &node : list_of(table, "ceiling")) {
            const toml::table &ceiling = table_of(node, "ceiling");
            profile.ceilings.push_back(
                {text_of(ceiling, "what"),
                 value_of<double>(ceiling, "startup_us", "a number") * 1e-6,
                 1e-9 / value_of<double>(ceiling, "gigabytes_per_second", "a number")});
        }
    }
    return profile;
}

std::string file_name_of(const std::string &text) {
    std::string result;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if (!result.empty() && result.back() != '-')
            result += '-';
    }
    while (!result.empty() && result.back() == '-') result.pop_back();
    return result;
}

std::string difference(const Profile::System &of, const Profile::System &here, bool any_host) {
    const auto differs = [](const char *what, const std::string &there, const std::string &now) {
        return fmt::format("it was measured with {} \"{}\", but this system has \"{}\"", what,
                           there, now);
    };
    if (of.device != here.device) return differs("device", of.device, here.device);
    if (of.driver != here.driver) return differs("driver", of.driver, here.driver);
    if (!here.mpi.empty() && of.mpi != here.mpi) return differs("MPI library", of.mpi, here.mpi);
    if (!any_host && of.host != here.host) return differs("host", of.host, here.host);
    return {};
}

FoundProfile look_for_profile(cl_device_id device) {
    const std::string &setting = config().profile;
    FoundProfile found;
    if (setting == "none") return found;
    const Profile::System here = system_of(device);
    const bool named = setting != "auto";
    found.path = named ? setting : profile_path(here);
    std::error_code ignored;
    if (found.path.empty() || (!named && !fs::exists(found.path, ignored))) {
        found.path.clear();
        return found;
    }
    try {
        auto profile = std::make_shared<Profile>(read_profile(found.path));
        found.refused = difference(profile->system, here, named);
        if (found.refused.empty()) found.profile = std::move(profile);
    } catch (const Error &error) {
        found.refused = error.status().message;
    }
    return found;
}

}  // namespace

std::string host_name() {
    char name[HOST_NAME_MAX + 1] = "";
    return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

Profile::System system_of(cl_device_id device) {
    const Job *const with_mpi = job;
    return {host_name(), query_string(device, CL_DEVICE_NAME),
            query_string(device, CL_DRIVER_VERSION),
            with_mpi != nullptr ? with_mpi->mpi_version() : std::string()};
}

std::string profile_path(const Profile::System &system) {
    const char *const xdg = std::getenv("XDG_CONFIG_HOME");
    const char *const home = std::getenv("HOME");
    fs::path folder;
    if (xdg != nullptr && *xdg == '/')
        folder = xdg;
    else if (home != nullptr && *home != '\0')
        folder = fs::path(home) / ".config";
    else
        return {};
    return folder / "cldist" /
           (file_name_of(system.host) + "-" + file_name_of(system.device) + ".toml");
}

std::string profile_text(const Profile &profile) {
    std::string text = fmt::format(
        "# Made by `cldist tune`. The library reads it at start if [system] describes the system "
        "where it runs.\nversion = {}\n\n[system]\nhost = {}\ndevice = {}\ndriver = {}\nmpi = {}\n",
        format_version, quoted(profile.system.host), quoted(profile.system.device),
        quoted(profile.system.driver), quoted(profile.system.mpi));
    for (const Ceiling &ceiling : profile.ceilings)
        text += fmt::format(
            "\n[[ceiling]]\nwhat = {}\nstartup_us = {:.3f}\ngigabytes_per_second = {:.4f}\n",
            quoted(ceiling.what), ceiling.startup_seconds * 1e6, 1e-9 / ceiling.seconds_per_byte);
    for (std::size_t i = 0; i < route_count; ++i) {
        if (!profile.routes.at(i)) continue;
        const Profile::Measurement &measured = *profile.routes.at(i);
        const std::string key = key_of(static_cast<Route>(i));
        text += fmt::format("\n# {}\n[route.{}]\nwhen = {}\nbetween = {}\n",
                            name_of(static_cast<Route>(i)), key, quoted(measured.when),
                            quoted(measured.between));
        for (const Curve &curve : measured.curves) {
            std::vector<std::size_t> sizes;
            std::vector<std::string> times;
            for (const Curve::Point &point : curve.points) {
                sizes.push_back(point.size);
                times.push_back(fmt::format("{:.3f}", point.seconds * 1e6));
            }
            text +=
                fmt::format("\n[[route.{}.way]]\npath = \"{}\"\nmaps = {}\n", key,
                            curve.way.eager ? "whole" : name_of(curve.way.path), curve.way.maps);
            if (!curve.way.eager)
                text += fmt::format("block = {}\ndepth = {}\n", curve.way.block, curve.way.depth);
            text += fmt::format("bytes = [{}]\nmicroseconds = [{}]\n", fmt::join(sizes, ", "),
                                fmt::join(times, ", "));
        }
    }
    return text;
}

Profile parse_profile(const std::string &text) {
    try {
        return profile_of(toml::parse(text));
    } catch (const toml::parse_error &error) {
        throw Error(CL_INVALID_VALUE, fmt::format("line {}: {}", error.source().begin.line,
                                                  std::string(error.description())));
    }
}

void write_profile(const std::string &path, const Profile &profile) {
    std::error_code failure;
    const fs::path target(path);
    const fs::path part = path + fmt::format(".{}", getpid());
    errno = 0;
    std::ofstream file(part);
    file << profile_text(profile);
    file.close();
    // Streams have no error code, but the failed call set errno.
    if (!file) failure = std::error_code(errno != 0 ? errno : EIO, std::generic_category());
    if (!failure) fs::rename(part, target, failure);
    if (!failure) return;
    std::error_code ignored;
    fs::remove(part, ignored);
    throw Error(CL_INVALID_VALUE, fmt::format("cannot write {}: {}", path, failure.message()));
}

Profile read_profile(const std::string &path) {
    std::string text;
    if (const std::string error = read_text(path, text); !error.empty())
        throw Error(CL_INVALID_VALUE, "cannot be read: " + error);
    return parse_profile(text);
}

FoundProfile find_profile(cl_device_id device) {
    // Read once per device, so that a warning is printed only once.
    static std::mutex mutex;
    static auto &found = *new std::map<cl_device_id, FoundProfile>;
    const std::lock_guard lock(mutex);
    const auto known = found.find(device);
    if (known != found.end()) return known->second;
    FoundProfile &result = found[device] = look_for_profile(device);
    if (!result.refused.empty())
        log_warning("the profile {} is not used: {}. Run `cldist tune` to make a new one",
                    result.path, result.refused);
    else if (result.profile != nullptr)
        log_info("profile {}", result.path);
    return result;
}

AdviceForRoutes find_advice(cl_device_id device) {
    const FoundProfile found = find_profile(device);
    return found.profile != nullptr ? found.profile->advice() : AdviceForRoutes{};
}

}  // namespace cldist
