#include "host/session.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "host/next.hpp"

namespace cldist::host {

thread_local Thread this_thread;

namespace {

constexpr int ask_again_ms = 1000;
constexpr int patience_of_others_ms = 3000;  // for threads other than the main thread
constexpr std::size_t much_to_receive = std::size_t{64} << 10U;
constexpr std::size_t most_of_main = 1'000'000;  // with more records, clock reads are dropped
constexpr std::size_t most_of_others = 65536;    // with more records, the oldest are dropped

constexpr std::array<const char *, static_cast<std::size_t>(Answer::last)> answer_names{
    "the program's start",
    "the time",
    "a file's opening",
    "a file's change",
    "a file's contents",
    "a write",
    "a file's state",
    "a change of the working directory",
    "a name",
    "a child process",
    "a read",
    "an OpenCL call"};
const char *name_of(Answer answer) {
    const auto number = static_cast<std::size_t>(answer);
    return number < answer_names.size() ? answer_names[number] : "something else";
}

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

// Looks for MPI in all loaded libraries, because Python modules load it without global symbols.
bool program_runs_mpi() {
    std::string path;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *to) {
            const std::string_view name = basename(info->dlpi_name);
            if (!name.starts_with("libmpi.so") && !name.starts_with("libmpich.so")) return 0;
            *static_cast<std::string *>(to) = info->dlpi_name;
            return 1;
        },
        &path);
    void *const library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return false;
    auto *const initialized = reinterpret_cast<int (*)(int *)>(dlsym(library, "MPI_Initialized"));
    int yes = 0;
    if (initialized != nullptr) initialized(&yes);
    dlclose(library);
    return yes != 0;
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
      writer_(*channel),
      reader_(*channel, rank == 0 || channel->far != 0 ? 0 : static_cast<std::size_t>(rank - 1)),
      place_(channel->ranks.at(static_cast<std::size_t>(rank)).place),
      interrupts_(*channel, rank) {
    if (const char *const folder = std::getenv("CLDIST_HOST_FOLDER")) folder_ = folder;
    if (const char *const seconds = std::getenv("CLDIST_STALL_SECONDS"))
        stall_seconds_ = std::atof(seconds);
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
    if (reader_.has_left()) {
        say("rank %d gets its own results in %s, because it stopped using rank 0's results in an "
            "earlier program",
            rank_, program_invocation_short_name);
        return false;
    }
    // Skips records that an earlier program of this rank has not read.
    for (;;) {
        const std::uint32_t seen = reader_.changes();
        const std::size_t there = reader_.there();
        if (there == 0) {
            if (reader_.ended()) {
                say("rank %d runs %s, but rank 0 has run no further program; this program gets its "
                    "own results",
                    rank_, program_invocation_short_name);
                return false;
            }
            reader_.wait(seen, 0, ask_again_ms);
            continue;
        }
        Record record{};
        reader_.peek(&record, sizeof record);
        const bool found = record.kind == static_cast<std::uint32_t>(Answer::begin) &&
                           record.size == sizeof identity_;
        if (found) reader_.peek(&identity_, sizeof identity_, sizeof record);
        if (record.kind == static_cast<std::uint32_t>(Answer::prepare)) {
            std::uint64_t meeting = 0;
            reader_.peek(&meeting, sizeof meeting, sizeof record);
            reader_.at_barrier(meeting);
        }
        reader_.take(sizeof record + record.size);
        if (!found) continue;
        place_ = place_of_first_ = record.place;
        for (std::size_t clock = 0; far() && clock < identity_.clocks.size(); ++clock) {
            ahead_.at(clock) = std::numeric_limits<std::int64_t>::max();
            note_time(static_cast<clockid_t>(clock), identity_.clocks.at(clock));
        }
        return true;
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
    const Lock lock(mutex_);
    const bool is_main = this_thread.id == main_thread;
    writer_.put({static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(kind), this_thread.id,
                 key, is_main ? ++place_ : 0},
                payload);
}

// Gives up after a second: clock reads do not block.
bool Session::post_if_there_is_room(const Record &record, const void *payload, bool quietly) {
    const SameErrno same;
    Lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) (void)lock.try_lock_for(std::chrono::seconds(1));
    return lock.owns_lock() && writer_.try_to_put(record, payload, quietly);
}

void Session::post_clock(std::uint32_t key, const void *payload, std::size_t size) {
    const std::uint64_t place = place_;
    if (no_clocks_at_ == place) return;
    if (!post_if_there_is_room(
            {static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(Answer::clock),
             this_thread.id, key, place},
            payload, false))
        no_clocks_at_ = place;
}

void Session::note_opencl_call() {
    if (!wraps(clocks)) return;
    const std::uint64_t place = ++place_;
    if (first()) {
        post_if_there_is_room(
            {0, static_cast<std::uint32_t>(Answer::opencl), this_thread.id, 0, place}, nullptr,
            true);
    } else if (reader_.there() > much_to_receive) {
        const SameErrno same;
        const Lock lock(mutex_);
        if (current_.load() != this) return;
        receive();
        drop_old_clocks();
    }
}

// Under the mutex. Takes all complete records of this program from the channel. Records of the next
// program, which rank 0 may start while this one still runs, stay there.
void Session::receive() {
    bool moved = false;
    // A record from another host may arrive in pieces.
    for (std::size_t left = reader_.there(); left >= sizeof(Record); moved = true) {
        Record record{};
        reader_.peek(&record, sizeof record);
        const std::size_t size = sizeof record + record.size;
        if (left < size) break;
        left -= size;
        const bool of_main = record.thread == main_thread;
        const auto kind = static_cast<Answer>(record.kind);
        if (kind == Answer::begin) {
            next_has_begun_ = true;
            break;
        }
        if (of_main) place_of_first_ = record.place;
        Kept kept{record, {}};
        if (kind != Answer::opencl) {
            kept.payload.resize(record.size);
            reader_.peek(kept.payload.data(), record.size, sizeof record);
        }
        reader_.take(size);
        if (kind == Answer::clock) note_clock(kept);
        const bool unwanted =
            own_clocks_ || record.place < place_ || of_main_.size() > most_of_main;
        if (kind == Answer::opencl || (kind == Answer::clock && unwanted)) continue;
        (of_main ? of_main_ : of_others_).push_back(std::move(kept));
        if (of_others_.size() > most_of_others) of_others_.pop_front();
    }
    if (moved && waiters_ != 0) reader_.wake_others();
}

// The difference includes the time that the record took, so the least one is the best estimate.
void Session::note_clock(const Kept &kept) {
    if (!far() || kept.record.key >= ahead_.size() || kept.payload.size() < sizeof(timespec))
        return;
    timespec there{};
    std::memcpy(&there, kept.payload.data(), sizeof there);
    note_time(static_cast<clockid_t>(kept.record.key), ns_of(there));
}

void Session::note_time(clockid_t clock, std::int64_t there) {
    timespec here{};
    next_clock_gettime(clock, &here);
    auto &ahead = ahead_.at(static_cast<std::size_t>(clock));
    ahead = std::min(ahead.load(), ns_of(here) - there);
}

// Under the mutex.
void Session::drop_old_clocks() {
    while (!of_main_.empty() &&
           of_main_.front().record.kind == static_cast<std::uint32_t>(Answer::clock) &&
           of_main_.front().record.place < place_)
        of_main_.pop_front();
}

int Session::stall_ms() const {
    return stall_seconds_ > 0 ? static_cast<int>(std::min(stall_seconds_, 1e6) * 1000) : -1;
}

int Session::patience_ms(const Thread &thread) {
    return thread.id == main_thread ? -1 : thread.alone ? 0 : patience_of_others_ms;
}

// Receives records until `look` returns true. Returns false if it never will, or after
// `patience_ms`; -1: no limit. `what` is null for clock reads, for which quiet records count, too.
template <typename Look>
bool Session::wait_until(Lock &lock, Look look, int patience_ms, const char *what) {
    receive();
    if (look()) return true;
    const Deadline deadline(patience_ms);
    const Deadline stall(stall_ms());
    const Deadline long_wait(ask_again_ms);
    bool said = what == nullptr;
    for (bool uses_mpi = false;;) {
        const std::uint32_t seen = reader_.changes();
        const bool ended = reader_.ended();
        receive();
        if (look()) return true;
        const std::size_t there = reader_.there();
        if (ended || next_has_begun_ || deadline.is_over()) return false;
        if (uses_mpi) {
            leave_to_mpi();
            return false;
        }
        if (!said && stall.is_over()) {
            said = true;
            say("rank %d has waited %.0f s for rank 0 to call %s", rank_, stall_seconds_, what);
        }
        ++waiters_;
        lock.unlock();
        reader_.wait(seen, there, std::min(deadline.left_ms(), ask_again_ms), what == nullptr);
        // Not under the mutex: this takes the loader's lock, whose holder may run a library's
        // constructor that waits for the mutex.
        uses_mpi = long_wait.is_over() && !platform_mpi_ && program_runs_mpi();
        lock.lock();
        --waiters_;
        if (current_.load() != this) return false;
    }
}

bool Session::take_clock(std::uint32_t key, void *payload, std::size_t size) {
    const SameErrno same;
    Lock lock(mutex_);
    if (current_.load() != this || own_clocks_) return false;
    const std::uint64_t place = place_;
    bool found = false;
    const auto look = [&] {
        drop_old_clocks();
        for (auto at = of_main_.begin(); at != of_main_.end() && at->record.place == place; ++at) {
            if (at->record.kind != static_cast<std::uint32_t>(Answer::clock)) break;
            if (at->record.key != key || at->record.size != size) continue;
            std::memcpy(payload, at->payload.data(), size);
            of_main_.erase(at);
            return found = true;
        }
        return place_of_first_ > place;
    };
    if (!wait_until(lock, look, stall_ms(), nullptr) && current_.load() == this &&
        !no_more_answers()) {
        own_clocks_ = true;
        say("rank %d has waited %.0f s for rank 0's main thread to read the clock; from now on "
            "rank %d uses its own clock",
            rank_, stall_seconds_, rank_);
    }
    return found;
}

ssize_t Session::take_any(Answer kind, std::uint32_t key, const char *what, void *payload,
                          std::size_t least, std::size_t room) {
    const SameErrno same;
    Thread &thread = this_thread;
    const bool is_main = thread.id == main_thread;
    Lock lock(mutex_);
    if (current_.load() != this) return -1;
    std::deque<Kept> &kept = is_main ? of_main_ : of_others_;
    if (is_main) ++place_;
    auto found = kept.end();
    const auto equal = [&](const Kept &one) {
        return one.record.kind == static_cast<std::uint32_t>(kind) && one.record.key == key &&
               one.record.size >= least && one.record.size <= room &&
               (thread.follows == 0 || one.record.thread == thread.follows);
    };
    const auto is_no_clock = [](const Kept &one) {
        return one.record.kind != static_cast<std::uint32_t>(Answer::clock);
    };
    const auto look = [&] {
        found =
            is_main ? std::ranges::find_if(kept, is_no_clock) : std::ranges::find_if(kept, equal);
        return found != kept.end();
    };
    if (!wait_until(lock, look, patience_ms(thread), what)) {
        if (current_.load() != this) return -1;
        if (is_main)
            end_early(what);
        else if (!no_more_answers())
            leave_others(what);
        return -1;
    }
    if (is_main) {
        kept.erase(kept.begin(), found);
        found = kept.begin();
        place_ = found->record.place;
        if (!equal(*found)) {
            diverge(kind, what, static_cast<Answer>(found->record.kind));
            return -1;
        }
    }
    const auto size = static_cast<ssize_t>(found->record.size);
    std::memcpy(payload, found->payload.data(), found->payload.size());
    if (!is_main) thread.follows = found->record.thread;
    kept.erase(found);
    return size;
}

// Under the mutex.
void Session::leave_others(const char *what) {
    this_thread.alone = true;
    if (!said_alone_.exchange(true))
        say("a thread of rank %d called %s, which no thread of rank 0 has called for %d s; from "
            "now on this thread gets its own results, except for calls that rank 0 has already "
            "made",
            rank_, what, patience_of_others_ms / 1000);
}

// Under the mutex.
void Session::diverge(Answer kind, const char *what, Answer theirs) {
    say("rank %d called %s (%s), but rank 0 called %s%s; the programs differ, and from now on this "
        "process gets its own results",
        rank_, what, name_of(kind), name_of(theirs), kind == theirs ? " with other arguments" : "");
    leave();
}

// Under the mutex.
void Session::end_early(const char *what) {
    say("rank %d called %s, but %s; from now on this process gets its own results", rank_, what,
        next_has_begun_ ? "rank 0 already runs its next program"
                        : "rank 0 or the connection to it has ended");
    leave();
}

// Under the mutex.
void Session::leave() {
    current_ = nullptr;
    reader_.leave();
    reader_.wake_others();
}

// Under the mutex. The processes of a program that uses MPI itself are intended to differ, and may
// wait for each other in MPI.
void Session::leave_to_mpi() {
    say("the program uses MPI itself; from now on rank %d gets its own results, not rank 0's",
        rank_);
    leave();
}

void Session::say(const char *format, ...) const {
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
