#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "pipeline/descriptor.hpp"

namespace cldist::tool {
namespace {

constexpr std::array stopping{SIGTERM, SIGINT, SIGHUP};
// Members of a process group get a signal one after another, within this time.
constexpr int group_ms = 200;

int checked(int result, const char *what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
    return result;
}

struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        checked(pipe2(ends.data(), O_CLOEXEC), "pipe");
        out = Descriptor(ends[0]);
        in = Descriptor(ends[1]);
    }
    Descriptor out;
    Descriptor in;
};

/// Blocks the signals that run_program handles and receives them from a descriptor. `also` is an
/// additional signal, or 0.
class Signals {
public:
    explicit Signals(int also) {
        // if SIGCHLD were ignored, waitpid would not report the child's end
        signal(SIGCHLD, SIG_DFL);
        sigset_t taken;
        sigemptyset(&taken);
        for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) {
            // nohup and shells that start a job in the background let it ignore these signals.
            struct sigaction action {};
            sigaction(number, nullptr, &action);
            const bool may_stay = number == SIGINT || number == SIGHUP;
            if (!may_stay || action.sa_handler != SIG_IGN) sigaddset(&taken, number);
        }
        if (also != 0) sigaddset(&taken, also);
        sigset_t blocked = taken;
        sigaddset(&blocked, SIGPIPE);  // a failed write returns an error instead
        sigprocmask(SIG_BLOCK, &blocked, &before_);
        // A previous run_program() has left the signals blocked, so its mask counts.
        static const sigset_t first_mask = before_;
        before_ = first_mask;
        descriptor_ =
            Descriptor(checked(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
    }
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    /// The signal mask with which this process was started.
    [[nodiscard]] const sigset_t &mask_before() const { return before_; }
    /// The next pending signal, if there is one.
    [[nodiscard]] std::optional<signalfd_siginfo> next() const {
        signalfd_siginfo info{};
        if (read(descriptor(), &info, sizeof info) != sizeof info) return std::nullopt;
        return info;
    }

private:
    sigset_t before_{};
    Descriptor descriptor_;
};

std::vector<char *> pointers_to(std::vector<std::string> &texts) {
    std::vector<char *> pointers;
    for (std::string &text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

// Runs in the child. Returns, with errno set, only if the program can't be executed.
void become(const Program &program, const std::vector<char *> &arguments,
            const std::vector<char *> &environment, pid_t parent, int output, int errors,
            sigset_t mask) {
    if (program.own_group) setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, program.death_signal);
    if (getppid() != parent) _exit(1);  // the parent died before the prctl call
    if (program.no_input) dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    if (output >= 0) dup2(output, STDOUT_FILENO);
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    if (program.interrupt_as != 0) sigaddset(&mask, SIGINT);
    if (!program.is_interruptible) signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execvpe(arguments[0], arguments.data(), environment.data());
}

// Returns the child's id; empty on failure, with errno in `error`.
std::optional<pid_t> start(const Program &program, int output, int errors, const Signals &signals,
                           int &error) {
    std::vector<std::string> arguments = program.arguments;
    std::vector<std::string> entries = entries_of(program.environment);
    const std::vector<char *> argument_pointers = pointers_to(arguments);
    const std::vector<char *> entry_pointers = pointers_to(entries);
    Pipe failure;
    const pid_t parent = getpid();
    const pid_t child = checked(fork(), "fork");
    if (child == 0) {
        become(program, argument_pointers, entry_pointers, parent, output, errors,
               signals.mask_before());
        const int code = errno;
        _exit(write(failure.in.get(), &code, sizeof code) == sizeof code ? 0 : 1);
    }
    failure.in = Descriptor();
    ssize_t got = 0;
    do got = read(failure.out.get(), &error, sizeof error);
    while (got < 0 && errno == EINTR);
    if (got != sizeof error) return child;
    waitpid(child, nullptr, 0);
    return std::nullopt;
}

// Returns the data of one read; empty at the end of the file.
std::string take(int from) {
    std::array<char, 65536> part{};
    const ssize_t got = read(from, part.data(), part.size());
    return {part.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

/// Copies one output of a program through this process, without blocking until finish().
class Passage {
public:
    /// `into` receives output that is not printed.
    Passage(bool wanted, int to, Filter filter, Tail *into = nullptr)
        : to_(to), filter_(std::move(filter)), into_(into) {
        if (wanted) pipe_.emplace();
    }
    /// The program's end of the pipe, or -1.
    [[nodiscard]] int program_end() const { return pipe_ ? pipe_->in.get() : -1; }
    void has_started() {
        if (pipe_) pipe_->in = Descriptor();
    }
    [[nodiscard]] pollfd awaits() const {
        if (!pending_.empty()) return {to_, POLLOUT, 0};
        return {pipe_ ? pipe_->out.get() : -1, POLLIN, 0};
    }
    /// Performs the action that awaits() requested.
    void step() {
        if (!pending_.empty()) {
            // If poll reports a pipe as writable, writing up to PIPE_BUF bytes does not block.
            write_some(std::min<std::size_t>(pending_.size(), PIPE_BUF));
            return;
        }
        const std::string part = take(pipe_->out.get());
        if (part.empty())
            end();
        else
            add(part);
    }
    /// Must be called after the program's end. Copies only data that is already in the pipe,
    /// because a child of the program may keep the pipe open and write forever.
    void finish() {
        if (pipe_) {
            int size = 0;
            ioctl(pipe_->out.get(), FIONREAD, &size);
            for (std::string part = "x"; size > 0 && !part.empty();
                 size -= static_cast<int>(part.size()))
                add(part = take(pipe_->out.get()));
            end();
        }
        while (!pending_.empty() && !is_cut_) write_some(pending_.size());
    }
    /// Whether the reader of this process's output has closed it.
    [[nodiscard]] bool is_cut() const { return is_cut_; }
    /// Stops all further output.
    void cut() {
        is_cut_ = true;
        pending_.clear();
    }

private:
    void add(std::string_view part) {
        if (is_cut_) return;
        if (into_ != nullptr)
            into_->append(part);
        else
            pending_ += filter_ ? filter_(part) : std::string(part);
    }
    void end() {
        if (filter_ && !is_cut_) pending_ += filter_({});
        pipe_.reset();
    }
    void write_some(std::size_t size) {
        const ssize_t written = write(to_, pending_.data(), size);
        if (written > 0)
            pending_.erase(0, static_cast<std::size_t>(written));
        else if (written < 0 && errno != EINTR && errno != EAGAIN)
            cut();
    }

    const int to_;
    const Filter filter_;
    Tail *const into_;
    std::optional<Pipe> pipe_;
    std::string pending_;
    bool is_cut_ = false;
};

bool is_stopping(int signal) { return std::ranges::find(stopping, signal) != stopping.end(); }

constexpr unsigned most_interrupts = 2;
constexpr int check_ms = 500;

/// A running program, or the daemon that has replaced it.
struct Running {
    const Program &program;
    pid_t process;
    unsigned interrupts = 0;
    ProgramEnd end;

    void interrupt() {
        end.interrupted = true;
        if (++interrupts <= most_interrupts) {
            kill(process, program.interrupt_as);
            return;
        }
        end.stopped_by = SIGINT;
        kill(process, SIGTERM);
    }

    // Passes a signal to the program.
    void pass_on(const signalfd_siginfo &info) {
        const int number = static_cast<int>(info.ssi_signo);
        // This process sent the signal to its own group, see below.
        if (info.ssi_pid == static_cast<std::uint32_t>(getpid())) return;
        const bool from_parent = info.ssi_pid == static_cast<std::uint32_t>(getppid());
        if (number == SIGINT) end.interrupted = true;
        if (number == program.interrupted_by) {
            if (!from_parent) return;
            end.interrupted = true;
            end.stopped_by = SIGINT;
            // Signals the whole group, like a terminal. A daemon is in its own group.
            const bool is_in_group = getpgrp() == getpid() && getpgid(process) == getpgrp();
            kill(is_in_group ? 0 : process, SIGINT);
            return;
        }
        if (number == SIGINT && program.interrupt_as != 0) {
            interrupt();
            return;
        }
        if (is_stopping(number)) end.stopped_by = number;
        const bool to_group =
            info.ssi_code == SI_KERNEL || (program.parent_signals_group && from_parent);
        if (program.own_group || !to_group) kill(process, number);
    }
};

std::string executable_of(pid_t process) {
    std::array<char, PATH_MAX> path{};
    const ssize_t size =
        readlink(fmt::format("/proc/{}/exe", process).c_str(), path.data(), path.size());
    return {path.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

// Whether a process may be the daemon of a program with this executable.
bool is_daemon(pid_t process, const std::string &executable) {
    const std::string own = executable_of(process);
    if (!own.empty() && own == executable) return true;
    std::ifstream maps(fmt::format("/proc/{}/maps", process));
    for (std::string line; std::getline(maps, line);)
        if (line.find("/libOpenCL.so") != std::string::npos) return true;
    return false;
}

// Searches the children of this process. As a subreaper, it also adopts orphaned descendants.
std::optional<pid_t> find_daemon(const std::string &executable) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
    for (pid_t process = 0; children >> process;)
        if (is_daemon(process, executable)) return process;
    return std::nullopt;
}

// Collects the exit statuses of child processes. Returns whether the program has ended.
bool reap(Running &running) {
    bool ended = false;
    for (int status = 0;;) {
        const pid_t process = waitpid(-1, &status, WNOHANG);
        if (process <= 0) return ended;
        if (process != running.process) continue;
        running.end.wait_status = status;
        ended = true;
    }
}

}  // namespace

Environment this_environment() {
    Environment environment;
    for (char **entry = environ; *entry != nullptr; ++entry)
        if (const std::string_view text = *entry; text.find('=') != std::string_view::npos)
            environment.emplace(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
    return environment;
}

std::vector<std::string> entries_of(const Environment &environment) {
    std::vector<std::string> entries;
    for (const auto &[name, value] : environment)
        entries.push_back(fmt::format("{}={}", name, value));
    return entries;
}

ProgramEnd run_program(const Program &program) {
    const Signals signals(program.interrupted_by);
    Tail tail;
    using Output = Program::Output;
    Passage output(program.output != Output::own, STDOUT_FILENO, program.passed,
                   program.output == Output::kept ? &tail : nullptr);
    Passage errors(program.errors != nullptr, STDERR_FILENO, program.errors);
    if (program.may_leave_daemon) prctl(PR_SET_CHILD_SUBREAPER, 1);
    Running running{program, 0, 0, {}};
    ProgramEnd &end = running.end;
    const std::optional<pid_t> child =
        start(program, output.program_end(), errors.program_end(), signals, end.error);
    if (!child) return end;
    running.process = *child;
    const std::string executable = executable_of(*child);
    output.has_started();
    errors.has_started();
    bool is_dying = false;
    for (bool ended = false; !ended;) {
        std::array<pollfd, 3> ready{
            {{signals.descriptor(), POLLIN, 0}, output.awaits(), errors.awaits()}};
        const int waits_ms = program.has_died && !end.died ? check_ms : -1;
        const int changes = poll(ready.data(), ready.size(), waits_ms);
        if (changes < 0) continue;
        // Until the first check, the program can end with a status of its own.
        const bool died = changes == 0 && waits_ms > 0 && program.has_died();
        if (died && std::exchange(is_dying, true)) {
            end.died = true;
            kill(running.process, SIGTERM);
        }
        if (ready[1].revents != 0) output.step();
        if (ready[2].revents != 0) errors.step();
        if (output.is_cut() && !std::exchange(end.cut_off, true)) {
            errors.cut();
            kill(running.process, SIGTERM);
        }
        while (const auto info = signals.next()) {
            if (info->ssi_signo != SIGCHLD)
                running.pass_on(*info);
            else
                ended |= reap(running);
        }
        if (ended && end.wait_status == 0 && program.may_leave_daemon && program.may_leave_daemon())
            if (const std::optional<pid_t> daemon = find_daemon(executable)) {
                running.process = *daemon;
                ended = false;
            }
    }
    output.finish();
    errors.finish();
    end.output = tail.text();
    // This process may be about to get the signal that ended the program.
    pollfd more{signals.descriptor(), POLLIN, 0};
    if (WIFSIGNALED(end.wait_status) && is_stopping(WTERMSIG(end.wait_status)))
        while (end.stopped_by == 0 && poll(&more, 1, group_ms) > 0)
            if (const auto info = signals.next();
                info && is_stopping(static_cast<int>(info->ssi_signo)))
                end.stopped_by = static_cast<int>(info->ssi_signo);
    return end;
}

int pending_stop() {
    sigset_t pending;
    sigpending(&pending);
    for (const int number : stopping)
        if (sigismember(&pending, number) == 1) return number;
    return 0;
}

void wait_for_stop() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : stopping) sigaddset(&signals, number);
    const timespec most{10, 0};
    sigtimedwait(&signals, nullptr, &most);
}

}  // namespace cldist::tool
