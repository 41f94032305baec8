#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "host/channel.hpp"
#include "host/interrupts.hpp"

namespace cldist::host {

/// The groups of wrapped functions that CLDIST_HOST_WRAP selects.
enum Group : unsigned { random_numbers = 1, clocks = 2, identity = 4, output = 8, files = 16 };
/// Parses a list of groups such as "random,time", "all" or "off". Unknown words are ignored.
[[nodiscard]] unsigned parse_groups(std::string_view text);

/// The kinds of records. Most records are rank 0's results of wrapped calls.
enum class Answer : std::uint32_t {
    begin,
    clock,
    open,
    prepare,
    contents,
    write,
    state,
    change,
    name,
    child,
    read,
    opencl,
    last
};

/// The state of each thread.
struct Thread {
    /// The same in all processes. 0: the program did not start the thread.
    std::uint32_t id = 0;
    std::uint32_t started = 0;       ///< how many threads it has started
    std::uint32_t opencl_calls = 0;  ///< nested OpenCL calls: callbacks make calls within a call
    /// It is in an OpenCL call whose order among all threads' calls matters.
    std::atomic<bool> ordered = false;
    bool in_callbacks = false;  ///< it runs the program's callbacks at the end of an OpenCL call
    /// It is in a wrapped call. Calls of a signal handler then get this process's own results.
    bool inside = false;
    bool sends_itself = false;  ///< it is sending a signal to itself
    bool alone = false;         ///< a wait for rank 0 has timed out; the thread does not wait again
    std::uint32_t follows = 0;  ///< within a wrapped call: the thread of rank 0 that it follows
    std::uint64_t drawn = 0;    ///< random bytes
    std::uint64_t block_number = ~std::uint64_t{0};
    std::uint32_t block[16] = {};
};
extern thread_local Thread this_thread;
/// Registers this_thread as a thread of the program for the object's lifetime.
class KnownThread {
public:
    KnownThread();
    KnownThread(const KnownThread &) = delete;
    KnownThread &operator=(const KnownThread &) = delete;
    ~KnownThread();
};
inline constexpr std::uint32_t main_thread = 1;

/// This process's part in a job whose wrapped calls return rank 0's results in all processes
/// (docs/dev/decisions/0036).
///
/// The main thread's wrapped calls outside OpenCL must be the same in all processes, except for
/// reads of clocks. These calls and the main thread's OpenCL calls are numbered. The number of the
/// last call is the thread's place. The n-th read of a clock at a place returns the result of rank
/// 0's n-th read of the same clock at the same place. If rank 0 has left the place with fewer
/// reads, the read returns this process's clock.
///
/// Other threads may share their work in a varying order. Their calls therefore get the oldest
/// unused result of an equal call of any of rank 0's other threads.
class Session {
public:
    /// Null if the program does not use rank 0's results.
    static Session *current() { return current_.load(std::memory_order_acquire); }
    /// Starts the session from the environment that `cldist run` has set. At the program's start.
    static void begin();
    /// Call it in a forked child: its calls are not wrapped.
    static void leave_to_parent() { current_ = nullptr; }

    [[nodiscard]] bool first() const { return rank_ == 0; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] bool wraps(unsigned group) const { return (groups_ & group) != 0; }
    /// Returns true if the job uses several hosts, which may not have rank 0's files.
    [[nodiscard]] bool far() const { return channel_->far != 0; }
    [[nodiscard]] const Channel::Identity &identity_of_first() const { return identity_; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const std::array<std::uint32_t, 8> &seed() const { return channel_->seed; }
    /// A folder for this process's private copies of files. It may not exist yet.
    [[nodiscard]] const std::string &folder() const { return folder_; }
    /// Returns true if other hosts receive rank 0's file when it is opened (`--stage`).
    [[nodiscard]] bool stages(std::string_view path) const;

    /// Returns rank 0's result of the calling thread's next call. Rank 0 calls `native`; the other
    /// processes do so only if there is no result. `what` describes the call in messages.
    template <typename T, typename Native>
    T answer(Answer kind, std::uint32_t key, const char *what, Native native) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (first()) {
            const T mine = native();
            post(kind, key, &mine, sizeof mine);
            return mine;
        }
        T theirs;
        return take(kind, key, what, &theirs, sizeof theirs) ? theirs : native();
    }
    /// In rank 0: sends a result.
    void post(Answer kind, std::uint32_t key, const void *payload, std::size_t size);
    /// In the other processes: waits for a result. Returns false if there will be none.
    bool take(Answer kind, std::uint32_t key, const char *what, void *payload, std::size_t size) {
        return take_any(kind, key, what, payload, size, size) >= 0;
    }
    /// The same for a result of `least` to `room` bytes. Returns its size, or -1.
    ssize_t take_any(Answer kind, std::uint32_t key, const char *what, void *payload,
                     std::size_t least, std::size_t room);

    /// Reads a clock in the main thread, outside OpenCL.
    template <typename T, typename Native>
    T read_clock(std::uint32_t key, Native native) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (first()) {
            const T mine = native();
            post_clock(key, &mine, sizeof mine);
            return mine;
        }
        T theirs;
        return take_clock(key, &theirs, sizeof theirs) ? theirs : native();
    }
    /// Returns by how many ns this host's CLOCK_REALTIME or CLOCK_MONOTONIC is ahead of that of
    /// rank 0's host. 0 for other clocks.
    [[nodiscard]] std::int64_t ahead(clockid_t clock) const {
        if (!far()) return 0;
        switch (clock) {
            case CLOCK_REALTIME:
            case CLOCK_REALTIME_COARSE: return ahead_[CLOCK_REALTIME];
            case CLOCK_MONOTONIC:
            case CLOCK_MONOTONIC_COARSE: return ahead_[CLOCK_MONOTONIC];
            default: return 0;
        }
    }

    /// Call it in the main thread at the start of an OpenCL call that all processes make.
    void note_opencl_call();
    /// Call it before the cluster platform, not the program, initialises MPI.
    void note_platform_mpi() { platform_mpi_ = true; }

    /// Rank 0 waits until the other processes have made the same call and have run `prepare`. The
    /// other processes do not wait.
    template <typename Prepare>
    void meet(std::uint32_t key, const char *what, Prepare prepare) {
        std::uint64_t number = 0;
        if (first()) {
            const std::lock_guard lock(meeting_);
            number = channel_->meetings.fetch_add(1) + 1;
            post(Answer::prepare, key, &number, sizeof number);
            Thread &thread = this_thread;
            if (!writer_.wait_for_barrier(number, patience_ms(thread))) thread.alone = true;
        } else if (take(Answer::prepare, key, what, &number, sizeof number)) {
            prepare();
            reader_.at_barrier(number);
        }
    }

    /// Returns true if SIGINT interrupts all processes at the same place.
    [[nodiscard]] bool interrupts_together() const { return !far() && wraps(clocks); }
    [[nodiscard]] Interrupts &interrupts() { return interrupts_; }
    /// In the main thread: runs the program's handler of SIGINT if this place is interrupted.
    void take_interrupt() {
        if (interrupts_.take()) interrupt_here();
    }

    [[gnu::format(printf, 2, 3)]] void say(const char *format, ...) const;

private:
    struct Kept {
        Record record;
        std::vector<std::byte> payload;
    };

    using Lock = std::unique_lock<std::timed_mutex>;

    Session(Channel *channel, int rank, unsigned groups);
    bool meet_first();
    void interrupt_here();
    void diverge(Answer kind, const char *what, Answer theirs);
    void end_early(const char *what);
    void post_clock(std::uint32_t key, const void *payload, std::size_t size);
    bool post_if_there_is_room(const Record &record, const void *payload, bool quietly);
    bool take_clock(std::uint32_t key, void *payload, std::size_t size);
    /// The time after which a wait is reported; -1: never.
    [[nodiscard]] int stall_ms() const;
    [[nodiscard]] static int patience_ms(const Thread &thread);
    template <typename Look>
    bool wait_until(Lock &lock, Look look, int patience_ms, const char *what);
    void receive();
    [[nodiscard]] bool no_more_answers() const { return next_has_begun_ || reader_.ended(); }
    void note_clock(const Kept &kept);
    void note_time(clockid_t clock, std::int64_t there);
    void leave();
    void leave_others(const char *what);
    void leave_to_mpi();
    void drop_old_clocks();

    static inline std::atomic<Session *> current_ = nullptr;

    Channel *const channel_;
    const int rank_;
    const unsigned groups_;
    const pid_t pid_;
    std::string folder_;
    std::vector<std::string> staged_;
    double stall_seconds_ = 30;
    Channel::Identity identity_{};
    std::timed_mutex mutex_;
    unsigned waiters_ = 0;  ///< threads that wait for a record
    std::mutex meeting_;
    ChannelWriter writer_;
    ChannelReader reader_;
    std::deque<Kept> of_main_;    ///< unused records of rank 0's main thread
    std::deque<Kept> of_others_;  ///< unused records of rank 0's other threads
    std::atomic<std::uint64_t> &place_;
    Interrupts interrupts_;
    std::uint64_t place_of_first_ = 0;  ///< the last known place of rank 0's main thread
    /// In rank 0: the place where clock reads are not sent, because a reader was too slow.
    std::uint64_t no_clocks_at_ = ~std::uint64_t{0};
    bool next_has_begun_ = false;  ///< rank 0 has started its next program
    bool own_clocks_ = false;      ///< a wait for rank 0's clock reads has timed out
    std::array<std::atomic<std::int64_t>, 2> ahead_{};
    std::atomic<bool> said_alone_ = false;
    std::atomic<bool> platform_mpi_ = false;
};

/// The calling thread's calls are not wrapped during the object's lifetime.
class Inside {
public:
    Inside() : before_(std::exchange(this_thread.inside, true)) {
        if (!before_) this_thread.follows = 0;
    }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;
    ~Inside() { this_thread.inside = before_; }

private:
    bool before_;
};

/// Restores errno in its destructor.
class SameErrno {
public:
    SameErrno() = default;
    SameErrno(const SameErrno &) = delete;
    SameErrno &operator=(const SameErrno &) = delete;
    ~SameErrno() { errno = code_; }

private:
    int code_ = errno;
};

/// The result of a call, with errno after it.
template <typename T>
struct WithErrno {
    T value;
    int code;
};
template <typename Call>
auto with_errno(Call call) -> WithErrno<decltype(call())> {
    const auto value = call();
    return {value, errno};
}

/// Returns `command` for a shell that only rank 0 runs. Its programs do not join the job, because
/// they must not wait for the other ranks.
[[nodiscard]] std::string command_of_first(const char *command);

[[nodiscard]] std::int64_t ns_of(const timespec &time);
/// Returns a hash of the text, for Record::key.
[[nodiscard]] std::uint32_t key_of(std::string_view text);

}  // namespace cldist::host
