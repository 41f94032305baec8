#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "host/channel.hpp"
#include "host/interrupts.hpp"
#include "host/receiver.hpp"
#include "host/sender.hpp"
#include "host/thread.hpp"

namespace cldist::host {

/// The groups of wrapped functions that CLDIST_HOST_WRAP selects.
enum Group : unsigned { random_numbers = 1, clocks = 2, identity = 4, output = 8, files = 16 };
/// Parses a list of groups such as "random,time", "all" or "off". Unknown words are ignored.
[[nodiscard]] unsigned parse_groups(std::string_view text);

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
    void post(Answer kind, std::uint32_t key, const void *payload, std::size_t size) {
        sender_.post(kind, key, payload, size);
    }
    /// In the other processes: waits for a result. Returns false if there will be none.
    bool take(Answer kind, std::uint32_t key, const char *what, void *payload, std::size_t size) {
        return take_any(kind, key, what, payload, size, size) >= 0;
    }
    /// The same for a result of `least` to `room` bytes. Returns its size, or -1.
    ssize_t take_any(Answer kind, std::uint32_t key, const char *what, void *payload,
                     std::size_t least, std::size_t room) {
        return receiver_.take_any(kind, key, what, payload, least, room);
    }

    /// Reads a clock in the main thread, outside OpenCL.
    template <typename T, typename Native>
    T read_clock(std::uint32_t key, Native native) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (first()) {
            const T mine = native();
            sender_.post_clock(key, &mine, sizeof mine);
            return mine;
        }
        T theirs;
        return receiver_.take_clock(key, &theirs, sizeof theirs) ? theirs : native();
    }
    /// Returns by how many ns this host's CLOCK_REALTIME or CLOCK_MONOTONIC is ahead of that of
    /// rank 0's host. 0 for other clocks.
    [[nodiscard]] std::int64_t ahead(clockid_t clock) const {
        return receiver_.offsets().ahead(clock);
    }

    /// Call it in the main thread at the start of an OpenCL call that all processes make.
    void note_opencl_call() {
        if (!wraps(clocks)) return;
        first() ? sender_.note_opencl_call() : receiver_.note_opencl_call();
    }
    /// Call it before the cluster platform, not the program, initialises MPI.
    void note_platform_mpi() { receiver_.note_platform_mpi(); }

    /// Rank 0 waits until the other processes have made the same call and have run `prepare`. The
    /// other processes do not wait.
    template <typename Prepare>
    void meet(std::uint32_t key, const char *what, Prepare prepare) {
        std::uint64_t number = 0;
        if (first()) {
            sender_.meet(key);
        } else if (take(Answer::prepare, key, what, &number, sizeof number)) {
            prepare();
            receiver_.at_barrier(number);
        }
    }

    /// Returns true if SIGINT interrupts all processes at the same place.
    [[nodiscard]] bool interrupts_together() const { return !far() && wraps(clocks); }
    [[nodiscard]] Interrupts &interrupts() { return interrupts_; }
    /// In the main thread: runs the program's handler of SIGINT if this place is interrupted.
    void take_interrupt() {
        if (interrupts_.take()) interrupt_here();
    }

private:
    Session(Channel *channel, int rank, unsigned groups);
    bool meet_first();
    void interrupt_here();

    static inline std::atomic<Session *> current_ = nullptr;

    Channel *const channel_;
    const int rank_;
    const unsigned groups_;
    const pid_t pid_;
    std::string folder_;
    std::vector<std::string> staged_;
    Channel::Identity identity_{};
    Sender sender_;
    Receiver receiver_;
    Interrupts interrupts_;
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

/// Returns a hash of the text, for Record::key.
[[nodiscard]] std::uint32_t key_of(std::string_view text);

}  // namespace cldist::host
