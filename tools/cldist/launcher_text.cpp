#include "launcher_text.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/new_start.hpp"
#include "run_plan.hpp"

namespace cldist::tool {
namespace {

// mpirun prints this line before and after each message.
const std::string line_of_dashes = std::string(74, '-') + '\n';
constexpr std::size_t longest_message = 8192;

// The first words of messages about failures that `cldist run` reports itself.
constexpr std::array job_aborted{"Primary job  terminated normally, but",
                                 "MPI_ABORT was invoked on rank "};
// The same for messages that begin with the launcher's name: the text after it.
constexpr std::array about_ended_ranks{
    " detected that one or more processes exited with non-zero status",
    " noticed that process rank"};
constexpr std::string_view host_lost = "ORTE has lost communication with a remote daemon.";
constexpr std::array launch_failed{"ORTE was unable to reliably start one or more daemons.",
                                   "An ORTE daemon has unexpectedly failed after launch"};
constexpr std::string_view remote_daemon = "Remote daemon: ";
constexpr std::array ssh_failures{"ssh: Could not resolve hostname ", "ssh: connect to host "};
// mpirun prints this when `cldist run` sends it a signal.
const std::string interrupt_forwarded =
    fmt::format(": Forwarding signal {} to job\n", interrupt_carrier);
constexpr std::array about_signals{": Forwarding signal ", ": killing job"};

bool begins_with_any(std::string_view text, const auto &beginnings) {
    return std::ranges::any_of(beginnings,
                               [&](std::string_view each) { return text.starts_with(each); });
}

void add_once(std::vector<std::string> &names, std::string_view name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

}  // namespace

// Whether the message is known, or may become a known message.
bool LauncherText::is_known(std::string_view message) const {
    const auto begins = [&](std::string_view known) {
        return message.starts_with(known.substr(0, message.size()));
    };
    return std::ranges::any_of(job_aborted, begins) || begins(host_lost) ||
           std::ranges::any_of(launch_failed, begins) ||
           std::ranges::any_of(about_ended_ranks,
                               [&](const char *text) { return begins(launcher_ + text); });
}

bool LauncherText::removes(std::string_view message) {
    if (message.starts_with(host_lost)) {
        const std::size_t at = std::min(message.find(remote_daemon), message.size());
        const std::string_view line = message.substr(at, message.find('\n', at) - at);
        const std::size_t name = line.rfind(" on node ");
        if (name == std::string_view::npos) return false;
        add_once(lost_hosts_, line.substr(name + 9));
        return true;
    }
    if (begins_with_any(message, launch_failed)) {
        launch_failure_ = line_of_dashes + std::string(message) + line_of_dashes;
        return true;
    }
    return reported_;
}

std::string LauncherText::pass(std::string_view part) {
    const bool is_end = part.empty();
    std::string text = std::exchange(held_, {});
    text += part;
    std::string passed;
    for (std::string_view rest = text; !rest.empty();) {
        const std::size_t end = rest.find('\n');
        const std::string_view line =
            rest.substr(0, end == std::string_view::npos ? rest.size() : end + 1);
        if (at_line_start_ && line == line_of_dashes) {
            const std::string_view message = rest.substr(line.size());
            const std::size_t length = message.find(line_of_dashes);
            if (is_known(message)) {
                if (length == std::string_view::npos && !is_end &&
                    message.size() < longest_message) {
                    held_ = rest;
                    return passed;
                }
                if (length != std::string_view::npos && removes(message.substr(0, length))) {
                    rest.remove_prefix(line.size() + length + line_of_dashes.size());
                    continue;
                }
            }
        }
        const bool removed = at_line_start_ && line.starts_with(launcher_) &&
                             begins_with_any(line.substr(launcher_.size()), about_signals);
        if (at_line_start_) look_at(line);
        if (!removed) passed += line;
        at_line_start_ = line.back() == '\n';
        rest.remove_prefix(line.size());
    }
    return passed;
}

void LauncherText::look_at(std::string_view line) {
    const bool by_platform =
        line.starts_with("cldist[") &&
        line.find("]: the processes' calls differ: ") != std::string_view::npos;
    const bool is_interrupt = line == launcher_ + interrupt_forwarded;
    if (by_platform || is_interrupt || line.starts_with("cldist run: rank ") ||
        line.starts_with(new_start_announcement))
        reported_ = true;
    for (const std::string_view failure : ssh_failures)
        if (line.starts_with(failure)) {
            line.remove_prefix(failure.size());
            add_once(unreachable_hosts_, line.substr(0, line.find_first_of(" :\n")));
        }
}

}  // namespace cldist::tool
