#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "host/channel.hpp"

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
    thread_end,
    last
};

/// Of each thread of the program.
struct Thread {
    std::uint32_t id = 0;  ///< the same in all processes; 0: it is none of the program's
    std::uint32_t started = 0;
    bool own_clocks = false;  ///< rank 0's are not asked for any more
    bool inside = false;      ///< of a wrapped call: what a signal's handler calls meanwhile is answered here
    std::uint64_t drawn = 0;  ///< random bytes
    std::uint32_t made_block = 0;
    std::uint64_t block_number = ~std::uint64_t{0};
    std::uint32_t block[16] = {};
};
extern thread_local Thread this_thread;

/// This process as one of a job whose wrapped calls get rank 0's answers. Answers belong to a thread's calls, in their order.
/// A process that asks something else than rank 0 did says so once, and gets its own answers from then on.
///
/// How often a thread reads the clock may be chance (who waits for a lock with a limit does). So if a thread other than the first does it
/// more often than rank 0's, that thread alone has its own clocks from then on; if less often, what is left is dropped.
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

    /// Rank 0's answer to the calling thread's next call: what `native` gives there. `what` is for people.
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
    ssize_t take_any(Answer kind, std::uint32_t key, const char *what, void *payload, std::size_t least,
                     std::size_t room);

    /// Rank 0 waits until all others have come here with their calls. `prepare` is run by the others before.
    template <typename Prepare>
    void meet(std::uint32_t key, const char *what, Prepare prepare) {
        std::uint64_t number = 0;
        if (first()) {
            const std::lock_guard lock(meeting_);
            number = ++meetings_;
            post(Answer::prepare, key, &number, sizeof number);
            writer_.wait_for_barrier(number);
        } else if (take(Answer::prepare, key, what, &number, sizeof number)) {
            prepare();
            come_to(number);
        }
    }

    /// The calling thread is one of the program's, and ends.
    void end_thread() {
        if (first()) post(Answer::thread_end, 0, nullptr, 0);
    }

    [[gnu::format(printf, 2, 3)]] void say(const char *format, ...) const;

private:
    struct Kept {
        Record record;
        std::vector<std::byte> payload;
    };

    Session(Channel *channel, int rank, unsigned groups);
    bool meet_first();
    void come_to(std::uint64_t number);
    void diverge(Answer kind, const char *what, Answer theirs);
    bool wait_for(Answer kind, std::unique_lock<std::mutex> &lock, const char *what);
    bool sort_records(std::uint32_t until);
    [[nodiscard]] const Kept *oldest_kept() const;
    [[nodiscard]] Record oldest() const;
    void drop_oldest();
    void leave_clocks();

    static inline std::atomic<Session *> current_ = nullptr;

    Channel *const channel_;
    const int rank_;
    const unsigned groups_;
    const pid_t pid_;
    std::string folder_;
    std::vector<std::string> staged_;
    double stall_seconds_ = 30;
    Channel::Identity identity_{};
    std::mutex mutex_;
    std::mutex meeting_;
    std::uint64_t meetings_ = 0;
    ChannelWriter writer_;
    ChannelReader reader_;
    std::unordered_map<std::uint32_t, std::deque<Kept>> kept_;  // of other threads
    std::unordered_set<std::uint32_t> own_clocks_;              // threads whose clocks are their own
    bool said_own_clocks_ = false;
};

/// While it lives the thread's calls are not wrapped.
class Inside {
public:
    Inside() : before_(std::exchange(this_thread.inside, true)) {}
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

/// A hash of a text, for Record::key.
[[nodiscard]] std::uint32_t key_of(std::string_view text);

}  // namespace cldist::host
