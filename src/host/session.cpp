#include "host/session.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "host/next.hpp"

namespace cldist::host {

thread_local Thread this_thread;

namespace {

constexpr std::array<std::pair<const char *, unsigned>, 5> group_names{{{"random", random_numbers},
                                                                        {"time", clocks},
                                                                        {"identity", identity},
                                                                        {"output", output},
                                                                        {"files", files}}};

// Shells and similar programs are not wrapped. The programs that they start are, one by one.
bool starts_programs() {
    std::array<char, 4096> path{};
    if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return false;
    const std::string_view name = basename(path.data());
    return std::ranges::any_of(std::array{"sh", "bash", "dash", "zsh", "ksh", "busybox", "timeout",
                                          "time", "xargs", "make", "cldist"},
                               [&](const char *starter) { return name == starter; });
}

Channel *open_channel(const char *path) {
    const int file = next_open(path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return nullptr;
    void *const memory =
        mmap(nullptr, sizeof(Channel), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    next_close(file);
    if (memory == MAP_FAILED) return nullptr;
    auto *const channel = static_cast<Channel *>(memory);
    return channel->magic == Channel::magic_number ? channel : nullptr;
}

pid_t real_pid() { return static_cast<pid_t>(syscall(SYS_getpid)); }

// Returns true if the calling process becomes the rank's wrapped process: there is no other, or it
// is the same process after exec.
bool claim(std::atomic<std::int32_t> &holder) {
    const pid_t me = real_pid();
    std::int32_t before = holder.load();
    while (before == 0 || before == me || (kill(before, 0) != 0 && errno == ESRCH))
        if (holder.compare_exchange_weak(before, me)) return true;
    return false;
}

}  // namespace

std::string command_of_first(const char *command) {
    return std::string("export CLDIST_APART='only rank 0 runs this program'; ") + command;
}

std::int64_t ns_of(const timespec &time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::uint32_t key_of(std::string_view text) {
    std::uint32_t hash = 2166136261U;
    for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
    return hash;
}

unsigned parse_groups(std::string_view text) {
    unsigned groups = 0;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        for (const auto &[name, group] : group_names)
            if (word == name || word == "all") groups |= group;
    }
    return groups;
}

Session::Session(Channel *channel, int rank, unsigned groups)
    : channel_(channel),
      rank_(rank),
      groups_(groups),
      pid_(real_pid()),
      sender_(*channel),
      receiver_(*channel, rank, current_),
      interrupts_(*channel, rank) {
    if (const char *const folder = std::getenv("CLDIST_HOST_FOLDER")) folder_ = folder;
    if (const char *const list = std::getenv("CLDIST_HOST_STAGE"))
        for (std::string_view rest = list; !rest.empty();) {
            const std::string_view one = rest.substr(0, rest.find(':'));
            rest.remove_prefix(std::min(rest.size(), one.size() + 1));
            if (!one.empty()) staged_.emplace_back(one);
        }
}

void Session::begin() {
    const SameErrno same;
    const char *const path = std::getenv("CLDIST_HOST_CHANNEL");
    const char *const rank = std::getenv("CLDIST_HOST_RANK");
    const char *const groups = std::getenv("CLDIST_HOST_WRAP");
    if (path == nullptr || rank == nullptr || groups == nullptr || starts_programs()) return;
    Channel *const channel = open_channel(path);
    const int number = std::atoi(rank);
    if (channel == nullptr || number < 0 ||
        static_cast<std::size_t>(number) >= Channel::most_readers ||
        !claim(channel->ranks.at(static_cast<std::size_t>(number)).holder))
        return;
    auto *const session = new Session(channel, number, parse_groups(groups));
    this_thread.id = main_thread;
    new KnownThread;  // never destroyed
    if (session->meet_first()) current_ = session;
}

bool Session::meet_first() {
    if (first()) {
        identity_.pid = pid_;
        identity_.parent = static_cast<std::int32_t>(syscall(SYS_getppid));
        for (int descriptor = 0; descriptor < 3; ++descriptor)
            if (next_isatty(descriptor) != 0) identity_.terminals |= 1 << descriptor;
        next_uname(&identity_.system);
        for (std::size_t clock = 0; clock < identity_.clocks.size(); ++clock) {
            timespec now{};
            next_clock_gettime(static_cast<clockid_t>(clock), &now);
            identity_.clocks.at(clock) = ns_of(now);
        }
        identity_.number = static_cast<std::uint32_t>(channel_->written.load());
        post(Answer::begin, 0, &identity_, sizeof identity_);
        return true;
    }
    return receiver_.begin(identity_);
}

bool Session::stages(std::string_view path) const {
    return std::ranges::any_of(staged_, [&](const std::string &place) {
        return path.starts_with(place) &&
               (path.size() == place.size() || path[place.size()] == '/' || place.ends_with('/'));
    });
}

void say(const char *format, ...) {
    std::array<char, 1024> text{};
    std::va_list arguments;
    va_start(arguments, format);
    const int size = std::vsnprintf(text.data(), text.size() - 1, format, arguments);
    va_end(arguments);
    const std::string line =
        "cldist run: " +
        std::string(text.data(), static_cast<std::size_t>(std::clamp(size, 0, 1022))) + "\n";
    (void)!next_write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace cldist::host
