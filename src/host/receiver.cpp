#include "host/receiver.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "host/next.hpp"
#include "host/thread.hpp"

namespace cldist::host {

namespace {

constexpr int ask_again_ms = 1000;
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

}  // namespace

void ClockOffsets::begin(const std::array<std::int64_t, 2> &there) {
    for (std::size_t clock = 0; far_ && clock < there.size(); ++clock) {
        ahead_.at(clock) = std::numeric_limits<std::int64_t>::max();
        note_time(static_cast<clockid_t>(clock), there.at(clock));
    }
}

void ClockOffsets::note(const Record &record, const std::vector<std::byte> &payload) {
    if (!far_ || record.key >= ahead_.size() || payload.size() < sizeof(timespec)) return;
    timespec there{};
    std::memcpy(&there, payload.data(), sizeof there);
    note_time(static_cast<clockid_t>(record.key), ns_of(there));
}

// The difference includes the time that the record took, so the least one is the best estimate.
void ClockOffsets::note_time(clockid_t clock, std::int64_t there) {
    timespec here{};
    next_clock_gettime(clock, &here);
    auto &ahead = ahead_.at(static_cast<std::size_t>(clock));
    ahead = std::min(ahead.load(), ns_of(here) - there);
}

bool UnusedRecords::receive(ChannelReader &reader, ClockOffsets &offsets) {
    bool moved = false;
    Record record{};
    for (std::size_t left = reader.there(); reader.peek(record, left); moved = true) {
        const std::size_t size = sizeof record + record.size;
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
            reader.peek(kept.payload.data(), record.size, sizeof record);
        }
        reader.take(size);
        if (kind == Answer::clock) offsets.note(kept.record, kept.payload);
        const bool unwanted =
            refuses_clocks_ || record.place < place_ || of_main_.size() > most_of_main;
        if (kind == Answer::opencl || (kind == Answer::clock && unwanted)) continue;
        (of_main ? of_main_ : of_others_).push_back(std::move(kept));
        if (of_others_.size() > most_of_others) of_others_.pop_front();
    }
    return moved;
}

void UnusedRecords::drop_old_clocks() {
    while (!of_main_.empty() && is_clock(of_main_.front()) &&
           of_main_.front().record.place < place_)
        of_main_.pop_front();
}

bool UnusedRecords::take_clock(std::uint64_t place, std::uint32_t key, void *payload,
                               std::size_t size) {
    drop_old_clocks();
    for (auto at = of_main_.begin(); at != of_main_.end() && at->record.place == place; ++at) {
        if (!is_clock(*at)) break;
        if (at->record.key != key || at->record.size != size) continue;
        std::memcpy(payload, at->payload.data(), size);
        of_main_.erase(at);
        return true;
    }
    return false;
}

template <typename Matches>
std::optional<UnusedRecords::Kept> UnusedRecords::take(bool of_main, Matches matches) {
    std::deque<Kept> &kept = of_main ? of_main_ : of_others_;
    const auto found = std::ranges::find_if(
        kept, [&](const Kept &one) { return of_main ? !is_clock(one) : matches(one.record); });
    if (found == kept.end()) return {};
    std::optional<Kept> taken(std::move(*found));
    kept.erase(of_main ? kept.begin() : found, found + 1);
    return taken;
}

Receiver::Receiver(Channel &channel, int rank, std::atomic<Session *> &session)
    : rank_(rank),
      session_(session),
      place_(channel.ranks.at(static_cast<std::size_t>(rank)).place),
      reader_(channel, rank == 0 || channel.far != 0 ? 0 : static_cast<std::size_t>(rank - 1)),
      records_(place_),
      offsets_(channel.far != 0) {
    if (const char *const seconds = std::getenv("CLDIST_STALL_SECONDS"))
        stall_seconds_ = std::atof(seconds);
}

bool Receiver::begin(Channel::Identity &identity) {
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
        Record record{};
        if (!reader_.peek(record, there)) {
            if (reader_.ended()) {
                say("rank %d runs %s, but rank 0 has run no further program; this program gets its "
                    "own results",
                    rank_, program_invocation_short_name);
                return false;
            }
            reader_.wait(seen, there, ask_again_ms);
            continue;
        }
        const bool found = record.kind == static_cast<std::uint32_t>(Answer::begin) &&
                           record.size == sizeof identity;
        if (found) reader_.peek(&identity, sizeof identity, sizeof record);
        if (record.kind == static_cast<std::uint32_t>(Answer::prepare)) {
            std::uint64_t meeting = 0;
            reader_.peek(&meeting, sizeof meeting, sizeof record);
            reader_.at_barrier(meeting);
        }
        reader_.take(sizeof record + record.size);
        if (!found) continue;
        place_ = record.place;
        records_.begin(record);
        offsets_.begin(identity.clocks);
        return true;
    }
}

int Receiver::stall_ms() const {
    return stall_seconds_ > 0 ? static_cast<int>(std::min(stall_seconds_, 1e6) * 1000) : -1;
}

void Receiver::note_opencl_call() {
    ++place_;
    if (reader_.there() <= much_to_receive) return;
    const SameErrno same;
    const Lock lock(mutex_);
    if (session_ == nullptr) return;
    receive();
    records_.drop_old_clocks();
}

// Under the mutex.
void Receiver::receive() {
    if (records_.receive(reader_, offsets_) && waiters_ != 0) reader_.wake_others();
}

// Receives records until `look` returns true. Returns false if it never will, or after
// `patience_ms`; -1: no limit. `what` is null for clock reads, for which quiet records count, too.
template <typename Look>
bool Receiver::wait_until(Lock &lock, Look look, int patience_ms, const char *what) {
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
        if (ended || records_.next_has_begun() || deadline.is_over()) return false;
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
        if (session_ == nullptr) return false;
    }
}

bool Receiver::take_clock(std::uint32_t key, void *payload, std::size_t size) {
    const SameErrno same;
    Lock lock(mutex_);
    if (session_ == nullptr || records_.refuses_clocks()) return false;
    const std::uint64_t place = place_;
    bool found = false;
    const auto look = [&] {
        found = records_.take_clock(place, key, payload, size);
        return found || records_.place_of_first() > place;
    };
    if (!wait_until(lock, look, stall_ms(), nullptr) && session_ != nullptr && !no_more_answers()) {
        records_.refuse_clocks();
        say("rank %d has waited %.0f s for rank 0's main thread to read the clock; from now on "
            "rank %d uses its own clock",
            rank_, stall_seconds_, rank_);
    }
    return found;
}

ssize_t Receiver::take_any(Answer kind, std::uint32_t key, const char *what, void *payload,
                           std::size_t least, std::size_t room) {
    const SameErrno same;
    Thread &thread = this_thread;
    const bool is_main = thread.id == main_thread;
    Lock lock(mutex_);
    if (session_ == nullptr) return -1;
    if (is_main) ++place_;
    const auto equal = [&](const Record &record) {
        return record.kind == static_cast<std::uint32_t>(kind) && record.key == key &&
               record.size >= least && record.size <= room &&
               (thread.follows == 0 || record.thread == thread.follows);
    };
    std::optional<UnusedRecords::Kept> found;
    const auto look = [&] {
        found = records_.take(is_main, equal);
        return found.has_value();
    };
    if (!wait_until(lock, look, thread.patience_ms(), what)) {
        if (session_ == nullptr) return -1;
        if (is_main)
            end_early(what);
        else if (!no_more_answers())
            leave_others(what);
        return -1;
    }
    const Record &record = found->record;
    if (is_main) {
        place_ = record.place;
        if (!equal(record)) {
            diverge(kind, what, static_cast<Answer>(record.kind));
            return -1;
        }
    } else {
        thread.follows = record.thread;
    }
    std::memcpy(payload, found->payload.data(), record.size);
    return static_cast<ssize_t>(record.size);
}

// Under the mutex.
void Receiver::leave_others(const char *what) {
    this_thread.alone = true;
    if (!said_alone_.exchange(true))
        say("a thread of rank %d called %s, which no thread of rank 0 has called for %d s; from "
            "now on this thread gets its own results, except for calls that rank 0 has already "
            "made",
            rank_, what, Thread::patience_of_others_ms / 1000);
}

// Under the mutex.
void Receiver::diverge(Answer kind, const char *what, Answer theirs) {
    say("rank %d called %s (%s), but rank 0 called %s%s; the programs differ, and from now on this "
        "process gets its own results",
        rank_, what, name_of(kind), name_of(theirs), kind == theirs ? " with other arguments" : "");
    leave();
}

// Under the mutex.
void Receiver::end_early(const char *what) {
    say("rank %d called %s, but %s; from now on this process gets its own results", rank_, what,
        records_.next_has_begun() ? "rank 0 already runs its next program"
                                  : "rank 0 or the connection to it has ended");
    leave();
}

// Under the mutex.
void Receiver::leave() {
    session_ = nullptr;
    reader_.leave();
    reader_.wake_others();
}

// Under the mutex. The processes of a program that uses MPI itself are intended to differ, and may
// wait for each other in MPI.
void Receiver::leave_to_mpi() {
    say("the program uses MPI itself; from now on rank %d gets its own results, not rank 0's",
        rank_);
    leave();
}

}  // namespace cldist::host
