#include "base/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace cldist {
namespace {

using Clock = std::chrono::steady_clock;

// OpenCL loaders overwrite the first separator of this list with a terminator, in the environment
// itself. A child would then see only the first platform. Therefore this library saves the list
// when it is loaded, before any platform is loaded.
constexpr const char *platforms = "OCL_ICD_FILENAMES";
const std::string platforms_at_start = [] {
    const char *value = std::getenv(platforms);
    return value != nullptr ? fmt::format("{}={}", platforms, value) : std::string();
}();

// Returns this process's environment with the complete platform list and with `variables` replaced.
// The pointers refer to `list` and `variables`.
std::vector<char *> environment(std::string &list, std::vector<std::string> &variables) {
    std::vector<char *> result;
    for (std::string &variable : variables) result.push_back(variable.data());
    for (char **entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::string_view name = text.substr(0, text.find('=') + 1);
        if (std::any_of(variables.begin(), variables.end(),
                        [&](const auto &v) { return v.starts_with(name); }))
            continue;
        const bool cut =
            text.size() < list.size() && list[text.size()] == ':' && list.starts_with(text);
        result.push_back(cut ? list.data() : *entry);
    }
    result.push_back(nullptr);
    return result;
}

// Starts the child in its own process group, so that its children can be killed with it. Returns
// errno or 0.
int start(std::vector<std::string> &arguments, std::vector<std::string> &variables, int out,
          pid_t &child) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);  // the library's threads block all signals
    std::vector<char *> pointers;
    for (std::string &argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    std::string list = platforms_at_start;
    const int error = posix_spawn(&child, pointers[0], &actions, &attributes, pointers.data(),
                                  environment(list, variables).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Reads available output and waits at most `wait_ms` for it. Returns false at the end of the
// output.
bool take_output(int in, std::string &output, int wait_ms) {
    pollfd ready{in, POLLIN, 0};
    if (poll(&ready, 1, wait_ms) <= 0) return true;
    std::array<char, 4096> part{};
    const ssize_t got = read(in, part.data(), part.size());
    if (got > 0) output.append(part.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

ChildEnd run_child(std::vector<std::string> arguments, std::chrono::milliseconds limit,
                   std::vector<std::string> variables) {
    ChildEnd end;
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        end.error = errno;
        return end;
    }
    pid_t child = 0;
    end.error = start(arguments, variables, ends[1], child);
    close(ends[1]);
    bool open = end.error == 0;
    const auto deadline = Clock::now() + limit;
    int status = 0;
    // The end of the child usually closes the pipe, which wakes this thread. If the child closed
    // the pipe early, or its children hold it open, the loop polls.
    for (pid_t ended = 0; end.error == 0 && ended == 0;) {
        if (open)
            open = take_output(ends[0], end.output, 20);
        else
            poll(nullptr, 0, 1);
        ended = waitpid(child, &status, WNOHANG);
        if (ended < 0) end.error = errno;
        if (ended != 0 || Clock::now() < deadline) continue;
        end.timed_out = true;
        kill(-child, SIGKILL);
        if (waitpid(child, &status, 0) < 0) end.error = errno;
        break;
    }
    for (std::size_t before = end.output.size(); open; before = end.output.size()) {
        open = take_output(ends[0], end.output, 0);
        if (end.output.size() == before) break;
    }
    close(ends[0]);
    if (end.error == 0 && WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (end.error == 0 && WIFEXITED(status)) end.status = WEXITSTATUS(status);
    return end;
}

}  // namespace cldist
