#include "host/session.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "host/next.hpp"

namespace cldist::host {

thread_local Thread this_thread;

namespace {

constexpr std::uint32_t main_thread = 1;
constexpr int look_again_ms = 1000;
constexpr std::int64_t patience_with_clocks_ns = 1'000'000'000;  // of threads other than the first

constexpr std::array<const char *, static_cast<std::size_t>(Answer::last)> answer_names{"the program's start",
                                                                                        "the time",
                                                                                        "a file's opening",
                                                                                        "a file's change",
                                                                                        "a file's contents",
                                                                                        "a write",
                                                                                        "a file's state",
                                                                                        "a change of folders",
                                                                                        "a name",
                                                                                        "a child process",
                                                                                        "a read",
                                                                                        "a thread's end"};
const char *name_of(Answer answer) {
    const auto number = static_cast<std::size_t>(answer);
    return number < answer_names.size() ? answer_names[number] : "something else";
}

constexpr std::array<std::pair<const char *, unsigned>, 5> group_names{
    {{"random", random_numbers}, {"time", clocks}, {"identity", identity}, {"output", output}, {"files", files}}};

// Programs that start others: these shall be wrapped, one after the other, not they.
bool starts_programs() {
    std::array<char, 4096> path{};
    if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return false;
    const char *const slash = std::strrchr(path.data(), '/');
    const std::string_view name = slash != nullptr ? slash + 1 : path.data();
    return std::ranges::any_of(
        std::array{"sh", "bash", "dash", "zsh", "ksh", "busybox", "timeout", "time", "xargs", "make", "cldist"},
        [&](const char *starter) { return name == starter; });
}

Channel *open_channel(const char *path) {
    const int file = next_open(path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return nullptr;
    void *const memory = mmap(nullptr, sizeof(Channel), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    next_close(file);
    if (memory == MAP_FAILED) return nullptr;
    auto *const channel = static_cast<Channel *>(memory);
    return channel->magic == Channel::magic_number ? channel : nullptr;
}

pid_t real_pid() { return static_cast<pid_t>(syscall(SYS_getpid)); }

// Whether the calling process may be the rank's wrapped one: there is no other, or it is what has become of that.
bool claim(std::atomic<std::int32_t> &holder) {
    const pid_t me = real_pid();
    std::int32_t before = holder.load();
    while (before == 0 || before == me || (kill(before, 0) != 0 && errno == ESRCH))
        if (holder.compare_exchange_weak(before, me)) return true;
    return false;
}

}  // namespace

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
      writer_(*channel),
      reader_(*channel, rank == 0 || channel->far != 0 ? 0 : static_cast<std::size_t>(rank - 1)) {
    if (const char *const folder = std::getenv("CLDIST_HOST_FOLDER")) folder_ = folder;
    if (const char *const seconds = std::getenv("CLDIST_STALL_SECONDS")) stall_seconds_ = std::atof(seconds);
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
    if (channel == nullptr || number < 0 || static_cast<std::size_t>(number) >= Channel::most_readers ||
        !claim(channel->holders.at(static_cast<std::size_t>(number))))
        return;
    auto *const session = new Session(channel, number, parse_groups(groups));
    this_thread.id = main_thread;
    if (session->meet_first()) current_ = session;
}

bool Session::meet_first() {
    if (first()) {
        identity_.pid = pid_;
        identity_.parent = static_cast<std::int32_t>(syscall(SYS_getppid));
        for (int descriptor = 0; descriptor < 3; ++descriptor)
            if (next_isatty(descriptor) != 0) identity_.terminals |= 1 << descriptor;
        next_uname(&identity_.system);
        identity_.number = static_cast<std::uint32_t>(channel_->written.load());
        post(Answer::begin, 0, &identity_, sizeof identity_);
        return true;
    }
    // What an earlier program has not asked for is in front of it.
    for (;;) {
        const std::uint32_t seen = reader_.changes();
        const std::size_t there = reader_.there();
        if (there == 0) {
            if (reader_.ended()) return false;
            reader_.wait(seen, 0, look_again_ms);
            continue;
        }
        Record record{};
        reader_.look(&record, sizeof record);
        const bool found = record.kind == static_cast<std::uint32_t>(Answer::begin) && record.size == sizeof identity_;
        if (found) reader_.look(&identity_, sizeof identity_, sizeof record);
        if (record.kind == static_cast<std::uint32_t>(Answer::prepare)) {
            std::uint64_t meeting = 0;
            reader_.look(&meeting, sizeof meeting, sizeof record);
            reader_.at_barrier(meeting);
        }
        reader_.take(sizeof record + record.size);
        if (found) return true;
    }
}

bool Session::stages(std::string_view path) const {
    return std::ranges::any_of(staged_, [&](const std::string &place) {
        return path.starts_with(place) &&
               (path.size() == place.size() || path[place.size()] == '/' || place.ends_with('/'));
    });
}

void Session::post(Answer kind, std::uint32_t key, const void *payload, std::size_t size) {
    const SameErrno same;
    const std::lock_guard lock(mutex_);
    writer_.put({static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(kind), this_thread.id, key}, payload);
}

// Leaves no whole record in the channel but those behind one of the thread `until`.
bool Session::sort_records(std::uint32_t until) {
    bool moved = false;
    bool found = false;
    // From another host a record may come in pieces.
    for (std::size_t left = reader_.there(); left >= sizeof(Record);) {
        Record record{};
        reader_.look(&record, sizeof record);
        if (left < sizeof record + record.size) break;
        found = record.thread == until;
        if (found) break;
        if (record.kind != static_cast<std::uint32_t>(Answer::clock) || !own_clocks_.contains(record.thread)) {
            Kept other{record, std::vector<std::byte>(record.size)};
            reader_.look(other.payload.data(), record.size, sizeof record);
            kept_[record.thread].push_back(std::move(other));
        }
        reader_.take(sizeof record + record.size);
        left -= sizeof record + record.size;
        moved = true;
    }
    if (moved) reader_.wake_others();
    return found;
}

// Comes back with true when something of this thread's is there.
bool Session::wait_for(Answer kind, std::unique_lock<std::mutex> &lock, const char *what) {
    const std::uint32_t thread = this_thread.id;
    const bool is_patient = kind != Answer::clock || thread == main_thread;
    timespec begin{};
    bool said = stall_seconds_ <= 0;
    for (;;) {
        if (oldest_kept() != nullptr) return true;
        const std::uint32_t seen = reader_.changes();
        const bool ended = reader_.ended();
        if (sort_records(thread)) return true;
        const std::size_t there = reader_.there();
        if (ended) return false;
        timespec now{};
        next_clock_gettime(CLOCK_MONOTONIC, &now);
        if (begin.tv_sec == 0) begin = now;
        if (!is_patient &&
            (now.tv_sec - begin.tv_sec) * 1'000'000'000 + now.tv_nsec - begin.tv_nsec >= patience_with_clocks_ns)
            return false;
        if (!said && static_cast<double>(now.tv_sec - begin.tv_sec) >= stall_seconds_) {
            said = true;
            say("rank %d has waited %.0f s for rank 0 to call %s", rank_, stall_seconds_, what);
        }
        lock.unlock();
        reader_.wait(seen, there, look_again_ms);
        lock.lock();
        if (current_.load() != this) return false;
    }
}

// The calling thread's, if another one has met it.
const Session::Kept *Session::oldest_kept() const {
    const auto kept = kept_.find(this_thread.id);
    return kept != kept_.end() && !kept->second.empty() ? &kept->second.front() : nullptr;
}

// The calling thread's, which is there.
Record Session::oldest() const {
    if (const Kept *const kept = oldest_kept(); kept != nullptr) return kept->record;
    Record record{};
    reader_.look(&record, sizeof record);
    return record;
}

void Session::drop_oldest() {
    if (oldest_kept() != nullptr)
        kept_[this_thread.id].pop_front();
    else
        reader_.take(sizeof(Record) + oldest().size);
}

void Session::leave_clocks() {
    this_thread.own_clocks = true;
    own_clocks_.insert(this_thread.id);
    if (std::exchange(said_own_clocks_, true)) return;
    say("a thread of rank %d reads the clock more often than rank 0's does: it has clocks of its own from here on",
        rank_);
}

ssize_t Session::take_any(Answer kind, std::uint32_t key, const char *what, void *payload, std::size_t least,
                          std::size_t room) {
    const SameErrno same;
    const bool is_main = this_thread.id == main_thread;
    const bool is_clock = kind == Answer::clock;
    std::unique_lock lock(mutex_);
    if (is_clock && this_thread.own_clocks) {
        // Rank 0 would wait for room.
        if (current_.load() == this) sort_records(0);
        return -1;
    }
    for (;; drop_oldest()) {
        if (current_.load() != this) return -1;
        if (!wait_for(kind, lock, what)) {
            if (is_clock && !is_main && current_.load() == this && !reader_.ended()) leave_clocks();
            return -1;
        }
        const Record record = oldest();
        const auto theirs = static_cast<Answer>(record.kind);
        if (theirs == kind && record.key == key && record.size >= least && record.size <= room) {
            if (const Kept *const kept = oldest_kept(); kept != nullptr)
                std::memcpy(payload, kept->payload.data(), record.size);
            else
                reader_.look(payload, record.size, sizeof record);
            drop_oldest();
            return record.size;
        }
        if (is_main || (!is_clock && theirs != Answer::clock)) {
            diverge(kind, what, theirs);
            return -1;
        }
        if (is_clock) {
            leave_clocks();
            return -1;
        }
    }
}

// With the mutex.
void Session::diverge(Answer kind, const char *what, Answer theirs) {
    say("rank %d called %s (%s) where rank 0 has called for %s%s: the programs differ from here on, and this process "
        "gets "
        "answers of its own",
        rank_, what, name_of(kind), name_of(theirs), kind == theirs ? " with other arguments" : "");
    current_ = nullptr;
    reader_.leave();
    reader_.wake_others();
}

void Session::come_to(std::uint64_t number) { reader_.at_barrier(number); }

void Session::say(const char *format, ...) const {
    std::array<char, 1024> text{};
    std::va_list arguments;
    va_start(arguments, format);
    const int size = std::vsnprintf(text.data(), text.size() - 1, format, arguments);
    va_end(arguments);
    const std::string line =
        "cldist run: " + std::string(text.data(), static_cast<std::size_t>(std::clamp(size, 0, 1022))) + "\n";
    (void)!next_write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace cldist::host
