#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace cldist::tool {
namespace {

constexpr std::array stopping{SIGTERM, SIGINT, SIGHUP};
// A group's members get a signal one after the other.
constexpr int group_ms = 200;

int checked(int result, const char *what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
    return result;
}

class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    ~Descriptor() { close(); }
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }
    [[nodiscard]] int get() const { return number_; }

private:
    int number_;
};

struct Pipe {
    Pipe()
        : Pipe([] {
              std::array<int, 2> ends{};
              checked(pipe2(ends.data(), O_CLOEXEC), "pipe");
              return ends;
          }()) {}
    Descriptor out;
    Descriptor in;

private:
    explicit Pipe(std::array<int, 2> ends) : out(ends[0]), in(ends[1]) {}
};

/// The signals that run_program takes, blocked, as a descriptor.
class Signals {
public:
    Signals() {
        signal(SIGCHLD, SIG_DFL);  // else, where it was ignored, there would be no end to wait for
        sigset_t taken;
        sigemptyset(&taken);
        for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&taken, number);
        sigprocmask(SIG_BLOCK, &taken, &before_);
        descriptor_.emplace(checked(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
    }
    [[nodiscard]] int descriptor() const { return descriptor_->get(); }
    /// As this process was started.
    [[nodiscard]] const sigset_t &mask_before() const { return before_; }
    /// The next one that has come, if there is one.
    [[nodiscard]] std::optional<signalfd_siginfo> next() const {
        signalfd_siginfo info{};
        if (read(descriptor(), &info, sizeof info) != sizeof info) return std::nullopt;
        return info;
    }

private:
    sigset_t before_{};
    std::optional<Descriptor> descriptor_;
};

std::vector<char *> pointers_to(std::vector<std::string> &texts) {
    std::vector<char *> pointers;
    for (std::string &text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

// In the child: comes back, with errno, if the program can't be executed.
void become(const Program &program, const std::vector<char *> &arguments, const std::vector<char *> &environment,
            pid_t parent, int output, const sigset_t &mask) {
    if (program.own_group) setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, program.death_signal);
    if (getppid() != parent) _exit(1);  // it died before that
    if (program.no_input) dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    if (output >= 0) dup2(output, STDOUT_FILENO);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execvpe(arguments[0], arguments.data(), environment.data());
}

// The child's id, or nothing, with errno in `error`.
std::optional<pid_t> start(const Program &program, int output, const Signals &signals, int &error) {
    std::vector<std::string> arguments = program.arguments;
    std::vector<std::string> entries;
    for (const auto &[name, value] : program.environment) entries.push_back(fmt::format("{}={}", name, value));
    const std::vector<char *> argument_pointers = pointers_to(arguments);
    const std::vector<char *> entry_pointers = pointers_to(entries);
    Pipe failure;
    const pid_t parent = getpid();
    const pid_t child = checked(fork(), "fork");
    if (child == 0) {
        become(program, argument_pointers, entry_pointers, parent, output, signals.mask_before());
        const int code = errno;
        _exit(write(failure.in.get(), &code, sizeof code) == sizeof code ? 0 : 1);
    }
    failure.in.close();
    ssize_t got = 0;
    do got = read(failure.out.get(), &error, sizeof error);
    while (got < 0 && errno == EINTR);
    if (got != sizeof error) return child;
    waitpid(child, nullptr, 0);
    return std::nullopt;
}

// Takes some of what is there; gives its size, 0 at the end.
std::size_t take(int from, Tail &tail) {
    std::array<char, 65536> part{};
    const ssize_t got = read(from, part.data(), part.size());
    const std::size_t size = got > 0 ? static_cast<std::size_t>(got) : 0;
    tail.append({part.data(), size});
    return size;
}

// What is in the pipe now: a child of the program's may hold it open, and write for ever.
void take_rest(int from, Tail &tail) {
    int size = 0;
    ioctl(from, FIONREAD, &size);
    for (std::size_t taken = 1; size > 0 && taken > 0; size -= static_cast<int>(taken)) taken = take(from, tail);
}

bool is_stopping(int signal) {
    for (const int number : stopping)
        if (signal == number) return true;
    return false;
}

// A signal for the program has come.
void pass_on(const signalfd_siginfo &info, const Program &program, pid_t child, ProgramEnd &end) {
    const int number = static_cast<int>(info.ssi_signo);
    if (is_stopping(number)) end.stopped_by = number;
    const bool from_parent = info.ssi_pid == static_cast<std::uint32_t>(getppid());
    const bool to_group = info.ssi_code == SI_KERNEL || (program.parent_signals_group && from_parent);
    if (program.own_group || !to_group) kill(child, number);
}

}  // namespace

Environment this_environment() {
    Environment environment;
    for (char **entry = environ; *entry != nullptr; ++entry)
        if (const std::string_view text = *entry; text.find('=') != std::string_view::npos)
            environment.emplace(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    return environment;
}

ProgramEnd run_program(const Program &program) {
    ProgramEnd end;
    const Signals signals;
    std::optional<Pipe> output;
    if (program.keep_output) output.emplace();
    const std::optional<pid_t> child = start(program, output ? output->in.get() : -1, signals, end.error);
    if (!child) return end;
    if (output) output->in.close();
    Tail tail;
    std::array<pollfd, 2> ready{{{signals.descriptor(), POLLIN, 0}, {output ? output->out.get() : -1, POLLIN, 0}}};
    for (bool ended = false; !ended;) {
        if (poll(ready.data(), ready.size(), -1) < 0) continue;
        if (ready[1].revents != 0 && take(ready[1].fd, tail) == 0) ready[1].fd = -1;
        while (const auto info = signals.next()) {
            if (info->ssi_signo != SIGCHLD)
                pass_on(*info, program, *child, end);
            else if (waitpid(*child, &end.wait_status, WNOHANG) == *child)
                ended = true;
            if (ended) break;
        }
    }
    if (ready[1].fd >= 0) take_rest(ready[1].fd, tail);
    end.output = tail.text();
    // The signal that ended it may be on its way to this process, too.
    if (WIFSIGNALED(end.wait_status) && is_stopping(WTERMSIG(end.wait_status)))
        while (end.stopped_by == 0 && poll(ready.data(), 1, group_ms) > 0)
            if (const auto info = signals.next(); info && is_stopping(static_cast<int>(info->ssi_signo)))
                end.stopped_by = static_cast<int>(info->ssi_signo);
    return end;
}

}  // namespace cldist::tool
