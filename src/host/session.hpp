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

/// What CLDIST_HOST_WRAP selects.
enum Group : unsigned { random_numbers = 1, clocks = 2, identity = 4, output = 8, files = 16 };
/// "random,time", "all" or "off"; what is none of these is left out.
[[nodiscard]] unsigned parse_groups(std::string_view text);

/// The calls whose answers travel.
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

/// State of each thread of the program.
struct Thread {
    /// The same in all processes; 0: a thread that the program did not start.
    std::uint32_t id = 0;
    std::uint32_t started = 0;       ///< how many threads it has started
    std::uint32_t opencl_calls = 0;  ///< that it is in: callbacks make calls within a call
    /// It is in a call whose order among all threads' calls matters.
    std::atomic<bool> ordered = false;
    bool in_callbacks = false;  ///< it runs callbacks of the program at the end of a call
    /// A wrapped call: what a signal's handler calls meanwhile is answered here.
    bool inside = false;
    bool sends_itself = false;  ///< a signal
    bool alone = false;         ///< it has waited in vain, and waits no longer
    std::uint32_t follows = 0;  ///< within a call: rank 0's thread, whose answers it gets
    std::uint64_t drawn = 0;    ///< random bytes
    std::uint32_t made_block = 0;
    std::uint64_t block_number = ~std::uint64_t{0};
    std::uint32_t block[16] = {};
};
extern thread_local Thread this_thread;
/// While it lives, this_thread is known as one of the program's.
class KnownThread {
public:
    KnownThread();
    KnownThread(const KnownThread &) = delete;
    KnownThread &operator=(const KnownThread &) = delete;
    ~KnownThread();
};
inline constexpr std::uint32_t main_thread = 1;

/// This process as one of a job whose wrapped calls get rank 0's answers (docs/dev/decisions/0036).
///
/// The main thread's calls outside OpenCL must be the same in all processes, except for its reads
/// of clocks. They and its calls of OpenCL are numbered: the number is the place that the thread
/// has come to. A clock read gets what rank 0's main thread got in its read of the same clock at
/// the same place. If rank 0 has left that place with fewer reads, it gets this process's clock.
///
/// Other threads share their work by chance: a call gets the oldest unused answer to an equal call
/// of rank 0's other threads.
class Session {
public:
    /// Null in programs that have no part, or have no longer.
    static Session *current() { return current_.load(std::memory_order_acquire); }
    /// From the environment that `cldist run` gives. At the program's start.
    static void begin();
    /// In a forked child, which has no part.
    static void leave_to_parent() { current_ = nullptr; }

    [[nodiscard]] bool first() const { return rank_ == 0; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] bool wraps(unsigned group) const { return (groups_ & group) != 0; }
    /// Whether hosts may lack each other's files.
    [[nodiscard]] bool far() const { return channel_->far != 0; }
    [[nodiscard]] const Channel::Identity &identity_of_first() const { return identity_; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const std::array<std::uint32_t, 8> &seed() const { return channel_->seed; }
    /// A folder for this process's files, which need not be there.
    [[nodiscard]] const std::string &folder() const { return folder_; }
    /// Whether a file of rank 0 goes to other hosts when it is opened.
    [[nodiscard]] bool stages(std::string_view path) const;

    /// Rank 0's answer to the calling thread's next call: what `native` gives there. `what` is for
    /// people.
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
    /// To be called by rank 0.
    void post(Answer kind, std::uint32_t key, const void *payload, std::size_t size);
    /// To be called by others. False if there is no answer, and will be none.
    bool take(Answer kind, std::uint32_t key, const char *what, void *payload, std::size_t size) {
        return take_any(kind, key, what, payload, size, size) >= 0;
    }
    /// The same for up to `room` bytes. Gives their number, or -1.
    ssize_t take_any(Answer kind, std::uint32_t key, const char *what, void *payload,
                     std::size_t least, std::size_t room);

    /// A clock read of the main thread outside OpenCL.
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
    /// How far this host's CLOCK_REALTIME or CLOCK_MONOTONIC is ahead of rank 0's host's, in ns.
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

    /// The main thread begins a call of OpenCL that all processes make.
    void note_opencl_call();
    /// The cluster platform, not the program, has initialised MPI.
    void note_platform_mpi() { platform_mpi_ = true; }

    /// Rank 0 waits until all others have come here with their calls. `prepare` is run by the
    /// others before.
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
            come_to(number);
        }
    }

    /// Whether all processes are interrupted at the same place.
    [[nodiscard]] bool interrupts_together() const { return !far() && wraps(clocks); }
    [[nodiscard]] Interrupts &interrupts() { return interrupts_; }
    /// Runs the program's handler of SIGINT if the main thread, which calls this, is interrupted at
    /// this place.
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
    void come_to(std::uint64_t number);
    void diverge(Answer kind, const char *what, Answer theirs);
    void end_early(const char *what);
    void post_clock(std::uint32_t key, const void *payload, std::size_t size);
    bool post_if_there_is_room(const Record &record, const void *payload, bool quietly);
    bool take_clock(std::uint32_t key, void *payload, std::size_t size);
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
    unsigned waiters_ = 0;  // threads that wait for a record
    std::mutex meeting_;
    ChannelWriter writer_;
    ChannelReader reader_;
    std::deque<Kept> of_main_;    // received and not used
    std::deque<Kept> of_others_;  // the same of other threads
    std::atomic<std::uint64_t> &place_;
    Interrupts interrupts_;
    std::uint64_t place_of_first_ = 0;  // rank 0's main thread has come so far, at least
    // In rank 0: at this place a reader was too slow for more.
    std::uint64_t no_clocks_at_ = ~std::uint64_t{0};
    bool next_has_begun_ = false;  // rank 0 has started its next program
    bool own_clocks_ = false;      // the main thread waited in vain for rank 0's
    std::array<std::atomic<std::int64_t>, 2> ahead_{};
    std::atomic<bool> said_alone_ = false;
    std::atomic<bool> platform_mpi_ = false;
};

/// While it lives the thread's calls are not wrapped.
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

/// Leaves errno as it was.
class SameErrno {
public:
    SameErrno() = default;
    SameErrno(const SameErrno &) = delete;
    SameErrno &operator=(const SameErrno &) = delete;
    ~SameErrno() { errno = code_; }

private:
    int code_ = errno;
};

/// A command for the shell that rank 0 alone runs: it must not wait for the other ranks.
[[nodiscard]] std::string command_of_first(const char *command);

[[nodiscard]] std::int64_t ns_of(const timespec &time);
/// A hash of a text, for Record::key.
[[nodiscard]] std::uint32_t key_of(std::string_view text);

}  // namespace cldist::host
