#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/wakeup.hpp"
#include "cluster/calls/call.hpp"

namespace cldist::cluster {

/// The hash of all calls up to the `number`th, which is the first for 1.
struct CallHash {
    std::uint64_t number;
    std::uint64_t hash;

    bool operator==(const CallHash &) const = default;
};

/// The OpenCL calls that this process's program has made: a hash of all, and the last ones with
/// their arguments. One thread at a time records, another one may ask; neither waits for the other.
class CallLog {
public:
    /// The hashes of the last `ring` - 1 calls are known.
    static constexpr std::uint64_t ring = 32768;
    /// The hashes after each `checkpoint` calls stay known longer: the last `checkpoints` - 1 of
    /// them.
    static constexpr std::uint64_t checkpoint = 4096;
    static constexpr std::uint64_t checkpoints = 4096;

    /// Records a call by a number for each of its `values`, which are the same in all processes.
    void record(const Call &call, std::span<const std::uint64_t> values);
    template <const Call &call, std::integral... Numbers>
    void record(Numbers... values) {
        static_assert(sizeof...(values) == call.value_count);
        record(call,
               std::array<std::uint64_t, sizeof...(values)>{static_cast<std::uint64_t>(values)...});
    }

    /// Accounts for a call that is not numbered nor known: those between two that are recorded may
    /// be in any order. Any thread.
    template <std::size_t count>
    void record_aside(const Call &call, const std::array<std::uint64_t, count> &values) {
        const auto sum = [&]<std::size_t... i>(std::index_sequence<i...>) {
            return (call.hash + ... + weighted(values[i], i));
        }
        (std::make_index_sequence<count>());
        aside_.fetch_add(mixed(sum), std::memory_order_relaxed);
        if (counts_asides_) count_aside();
    }
    /// Counts those from now on.
    void count_asides() { counts_asides_ = true; }
    [[nodiscard]] std::uint64_t asides() const { return asides_ + asides_of_one_thread_; }

    /// The last call.
    [[nodiscard]] CallHash last() const;
    /// The hash after call `number`, if it is known still, and already. That after call 0 is.
    [[nodiscard]] std::optional<std::uint64_t> hash_after(std::uint64_t number) const;
    /// All hashes that are known, in ascending order.
    [[nodiscard]] std::vector<CallHash> known() const;
    /// "clFinish(command_queue 3)", or nothing if the call is not known. Numbers from 2^48 on, most
    /// of them hashes, are hexadecimal.
    [[nodiscard]] std::string text(std::uint64_t number) const;

    /// Asked when another thread than before records a call: whether a third thread, or the former
    /// one, is in a call. Null: nobody wants to know.
    std::atomic<bool (*)()> ask_for_overlap = nullptr;
    /// Whether the answer was yes.
    [[nodiscard]] bool has_overlap() const { return has_overlap_; }
    /// Whether calls have come from more than one thread.
    [[nodiscard]] bool from_several_threads() const { return several_threads_; }

    /// From the next checkpoint on, a thread that records waits forever: the job is about to end,
    /// and calls that will be reported must be kept.
    void hold() { held_ = true; }

    /// Woken at checkpoints: whoever compares calls should do so before they are forgotten.
    Wakeup at_checkpoint;

private:
    // Every store is a release. A reader that finds a value that is too new learns this from
    // `count_`: the slot of call n is overwritten when n + ring - 1 calls are counted.
    struct Recorded {
        std::atomic<const Call *> call{nullptr};
        std::atomic<std::uint64_t> hash{0};
        std::array<std::atomic<std::uint64_t>, Call::most_values> values{};
    };

    // One odd factor for each value: sums then depend on the argument of each value, and the
    // products are independent.
    static constexpr auto factors = [] {
        std::array<std::uint64_t, Call::most_values> made{};
        for (std::size_t i = 0; i < made.size(); ++i)
            made[i] = mixed((i + 1) * 0x9e3779b97f4a7c15U) | 1U;
        return made;
    }();
    static std::uint64_t weighted(std::uint64_t value, std::size_t i) {
        return (value ^ value >> 32) * factors[i];
    }
    void note(std::thread::id thread);
    void keep_checkpoint(std::uint64_t number);
    [[nodiscard]] bool in_ring(std::uint64_t number) const;

    std::vector<Recorded> calls_ = std::vector<Recorded>(ring);
    std::vector<std::atomic<std::uint64_t>> checkpoints_ =
        std::vector<std::atomic<std::uint64_t>>(checkpoints);
    std::atomic<std::uint64_t> count_{0};
    std::atomic<bool> held_{false};
    std::uint64_t hash_ = 0;
    std::atomic<std::uint64_t> aside_{0};
    void count_aside();

    std::atomic<std::uint64_t> asides_{0};
    std::atomic<std::uint64_t> asides_of_one_thread_{0};
    const std::thread::id counting_thread_ = std::this_thread::get_id();  // who begins the World
    bool counts_asides_ = false;
    std::thread::id thread_;  // of the last call
    std::atomic<bool> several_threads_{false};
    std::atomic<bool> has_overlap_{false};
};

/// Where the calls of two processes part.
struct Difference {
    std::uint64_t equal_until;  ///< the last call up to which all are known to be equal
    /// Up to this one there is one that differs; the first one if it follows equal_until.
    std::uint64_t differ_at;
    /// Whether calls of one of them came from more than one thread.
    std::uint64_t several_threads = 0;

    [[nodiscard]] bool exact() const { return differ_at == equal_until + 1; }
};

/// From what is known of both, which is not empty; one of the calls that both have made does
/// differ.
Difference first_difference(std::span<const CallHash> a, std::span<const CallHash> b);

/// How the processes were started, which decides what to recommend if their calls differ.
enum class Start {
    with_answers,     ///< by `cldist run`: system calls return rank 0's results in all processes
    without_answers,  ///< each process has its own clocks, random numbers and files
    own_mpi           ///< the program has initialised MPI itself
};

/// What to print. The texts are those of call `differ_at`.
std::string difference_message(const Difference &difference, int rank_a, const std::string &text_a,
                               int rank_b, const std::string &text_b,
                               Start start = Start::with_answers);

}  // namespace cldist::cluster
