#include "load.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

constexpr std::chrono::milliseconds moment{400};

// A smaller load is the noise of an idle system.
constexpr double disturbing = 0.1;

struct Ticks {
    double all = 0;
    double idle = 0;
};

// The first line contains "cpu", user, nice, system, idle, iowait, irq, softirq, steal.
std::optional<Ticks> ticks_of(const std::string &text) {
    std::istringstream in(text);
    std::string name;
    std::array<double, 8> times{};
    in >> name;
    for (double &time : times) in >> time;
    if (!in || name != "cpu") return {};
    Ticks ticks{0, times[3] + times[4]};
    for (const double time : times) ticks.all += time;
    return ticks;
}

std::string first_line() {
    std::string line;
    std::getline(std::ifstream("/proc/stat"), line);
    return line;
}

}  // namespace

std::optional<double> busy_cores(const std::string &before, const std::string &after,
                                 double cores) {
    const std::optional<Ticks> first = ticks_of(before);
    const std::optional<Ticks> second = ticks_of(after);
    if (!first || !second || second->all <= first->all) return {};
    return cores * (1 - (second->idle - first->idle) / (second->all - first->all));
}

std::string load_warning(const std::string &host, double busy, double cores) {
    if (busy < disturbing * cores) return {};
    return fmt::format(
        "other programs use {:.1f} of the {:.0f} cores of {}, so the measured times are too long; "
        "measure while the system is idle",
        busy, cores, host);
}

std::string look_at_load() {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    const std::string before = first_line();
    std::this_thread::sleep_for(moment);
    return load_warning(host.data(), busy_cores(before, first_line(), cores).value_or(0), cores);
}

}  // namespace cldist::tool
