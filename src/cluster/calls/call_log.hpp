#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/wakeup.hpp"
#include "cluster/calls/call.hpp"

namespace cldist::cluster {

/// The hash of the calls 1 to `number`.
struct CallHash {
    std::uint64_t number;
    std::uint64_t hash;

    bool operator==(const CallHash &) const = default;
};

/// The OpenCL calls of the program in this process: a hash of all calls, and the last calls with
/// their arguments. One thread at a time records calls, and another may read them. Lock-free.
class CallLog {
public:
    /// The last `ring` - 1 calls are available.
    static constexpr std::uint64_t ring = 32768;
    /// The hashes of the last `hash_ring` - 1 calls are available: a process may be this far ahead
    /// when it learns what another one has called.
    static constexpr std::uint64_t hash_ring = std::uint64_t{1} << 19U;
    /// The last `checkpoints` - 1 hashes after every `checkpoint` calls are available, too.
    static constexpr std::uint64_t checkpoint = 4096;
    static constexpr std::uint64_t checkpoints = 4096;

    /// Which threads made the calls. The recording thread calls note(), any thread the others.
    class Threads {
    public:
        /// The calls since the last `most_changes` changes are available.
        static constexpr std::uint64_t most_changes = std::uint64_t{1} << 16U;

        /// Returns whether another thread is in an OpenCL call at the same time. Asked if the
        /// recording thread changes, or if a call waits for another one. Null if not needed.
        std::atomic<bool (*)()> ask_for_overlap = nullptr;
        /// Returns a number of the calling thread that is the same in all processes; 0 if the
        /// program did not start the thread. Null if not needed.
        std::atomic<std::uint32_t (*)()> ask_for_thread = nullptr;

        /// Notes the thread of call `number`. Returns true if another thread made the call before.
        bool note(std::uint64_t number);
        /// Returns true if it finds the first overlap.
        bool look_for_overlap();
        [[nodiscard]] bool has_overlap() const { return has_overlap_; }
        /// A hash of the threads that made the calls 1 to `number`, if available. The same value
        /// without `ask_for_thread`.
        [[nodiscard]] std::optional<std::uint64_t> hash_until(std::uint64_t number) const;
        /// Whether calls have come from more than one thread.
        [[nodiscard]] bool are_several() const { return changed_at_ != 0; }
        /// The last call that came from another thread than the call before; 0 if there is none.
        [[nodiscard]] std::uint64_t changed_at() const { return changed_at_; }

    private:
        std::thread::id thread_;          // of the last call
        std::uint32_t asked_thread_ = 0;  // its number
        mutable std::mutex mutex_;
        std::deque<CallHash> changes_;  // the hash of the threads after each change
        std::atomic<std::uint64_t> changed_at_{0};
        std::atomic<bool> has_overlap_{false};
    };

    /// Records a call with a number for each of Call::values, the same in all processes.
    void record(const Call &call, std::span<const std::uint64_t> values);
    template <const Call &call, std::integral... Numbers>
    void record(Numbers... values) {
        static_assert(sizeof...(values) == call.value_count);
        record(call,
               std::array<std::uint64_t, sizeof...(values)>{static_cast<std::uint64_t>(values)...});
    }

    /// Adds a call to the next hash without storing it. Such calls may be made in any order between
    /// two recorded calls. Any thread.
    template <std::size_t count>
    void record_aside(const Call &call, const std::array<std::uint64_t, count> &values) {
        const auto sum = [&]<std::size_t... i>(std::index_sequence<i...>) {
            return (call.hash + ... + weighted(values[i], i));
        }
        (std::make_index_sequence<count>());
        aside_.fetch_add(mixed(sum), std::memory_order_relaxed);
        if (counts_asides_) asides_.add();
    }
    /// Enables the count of such calls.
    void count_asides() { counts_asides_ = true; }
    [[nodiscard]] std::uint64_t asides() const { return asides_.count(); }

    [[nodiscard]] CallHash last() const;
    /// The hash after call `number`, if available; 0 after call 0.
    [[nodiscard]] std::optional<std::uint64_t> hash_after(std::uint64_t number) const;
    /// The hashes of the available calls and checkpoints, in the order of the calls.
    [[nodiscard]] std::vector<CallHash> known() const;
    /// For example "clFinish(command_queue 3)"; empty if the call is not available. Numbers from
    /// 2^48 on, which are usually hashes, are hexadecimal.
    [[nodiscard]] std::string text(std::uint64_t number) const;

    [[nodiscard]] Threads &threads() { return threads_; }
    [[nodiscard]] const Threads &threads() const { return threads_; }
    void look_for_overlap() {
        if (threads_.look_for_overlap()) at_checkpoint.wake();
    }
    /// The number of the last call.
    [[nodiscard]] std::uint64_t count() const { return count_; }

    /// Blocks recording threads forever from the next checkpoint on. The job is about to end, and
    /// the calls that will be reported must not be overwritten.
    void hold() { held_ = true; }

    /// Woken at each checkpoint, so that calls are compared before they are overwritten.
    Wakeup at_checkpoint;

private:
    // Every store is a release. After a read, `count_` shows whether the value may be that of a
    // newer call: its slot is overwritten when n + size - 1 calls are counted.
    struct Recorded {
        std::atomic<const Call *> call{nullptr};
        std::array<std::atomic<std::uint64_t>, Call::most_values> values{};
    };

    /// Any thread may add. The creating thread, the only one of most programs, needs no atomic
    /// addition.
    class Counter {
    public:
        void add();
        [[nodiscard]] std::uint64_t count() const { return of_others_ + of_creator_; }

    private:
        const std::thread::id creator_ = std::this_thread::get_id();
        std::atomic<std::uint64_t> of_creator_{0};
        std::atomic<std::uint64_t> of_others_{0};
    };

    // An odd factor for each value. The sum of the products depends on the order of the values, and
    // the products are independent of each other.
    static constexpr auto factors = [] {
        std::array<std::uint64_t, Call::most_values> made{};
        for (std::size_t i = 0; i < made.size(); ++i)
            made[i] = mixed((i + 1) * 0x9e3779b97f4a7c15U) | 1U;
        return made;
    }();
    static std::uint64_t weighted(std::uint64_t value, std::size_t i) {
        return (value ^ value >> 32) * factors[i];
    }
    void keep_checkpoint(std::uint64_t number);
    [[nodiscard]] bool in_ring(std::uint64_t number, std::uint64_t size = ring) const;

    std::vector<Recorded> calls_ = std::vector<Recorded>(ring);
    std::vector<std::atomic<std::uint64_t>> hashes_ =
        std::vector<std::atomic<std::uint64_t>>(hash_ring);
    std::vector<std::atomic<std::uint64_t>> checkpoints_ =
        std::vector<std::atomic<std::uint64_t>>(checkpoints);
    std::atomic<std::uint64_t> count_{0};
    std::atomic<bool> held_{false};
    std::uint64_t hash_ = 0;
    std::atomic<std::uint64_t> aside_{0};
    Counter asides_;
    bool counts_asides_ = false;
    Threads threads_;
};

/// Where the calls of two processes begin to differ.
struct Difference {
    std::uint64_t equal_until;  ///< all calls up to this one are known to be equal
    std::uint64_t differ_at;    ///< a call after `equal_until` and up to this one differs
    /// Whether the calls of one of the processes came from more than one thread.
    std::uint64_t several_threads = 0;

    [[nodiscard]] bool exact() const { return differ_at == equal_until + 1; }
};

/// Compares the available hashes of two processes. Neither list is empty, and one of the calls that
/// both processes have made differs.
Difference first_difference(std::span<const CallHash> a, std::span<const CallHash> b);

/// How the processes were started. The advice for differing calls depends on it.
enum class Start {
    with_answers,     ///< by `cldist run`: system calls return rank 0's results in all processes
    without_answers,  ///< each process has its own clocks, random numbers and files
    own_mpi           ///< the program has initialised MPI itself
};

/// The error message. `text_a` and `text_b` are the texts of call `differ_at`.
std::string difference_message(const Difference &difference, int rank_a, const std::string &text_a,
                               int rank_b, const std::string &text_b,
                               Start start = Start::with_answers);

}  // namespace cldist::cluster
