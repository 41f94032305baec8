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

/// The OpenCL calls that this process's program has made: a hash of all, and the last ones with their arguments. One
/// thread at a time records, another one may ask; neither waits for the other.
class CallLog {
public:
    static constexpr std::uint64_t ring = 32768;        ///< so many of the last calls, but one, are known
    static constexpr std::uint64_t checkpoint = 4096;   ///< of its multiples the hash stays known for longer,
    static constexpr std::uint64_t checkpoints = 4096;  ///< for so many of them, but one

    /// Records a call by a number for each of its `values`, which are the same in all processes.
    template <const Call &call, std::integral... Numbers>
    void record(Numbers... values) {
        static_assert(sizeof...(values) == call.value_count);
        if (const auto thread = std::this_thread::get_id(); thread != thread_) note(thread);
        const std::uint64_t number = count_.load(std::memory_order_relaxed) + 1;
        Recorded &place = calls_[number % ring];
        [[maybe_unused]] std::size_t i = 0;
        (place.values[i++].store(static_cast<std::uint64_t>(values), std::memory_order_release), ...);
        hash_ = mixed(hash_ + sum_of<call>(values...) + aside_.load(std::memory_order_relaxed));
        place.call.store(&call, std::memory_order_release);
        place.hash.store(hash_, std::memory_order_release);
        count_.store(number, std::memory_order_release);
        if (number % checkpoint == 0) keep_checkpoint(number);
    }

    /// Accounts for a call that is not numbered nor known: those between two that are recorded may
    /// be in any order. Any thread.
    template <const Call &call, std::integral... Numbers>
    void record_aside(Numbers... values) {
        aside_.fetch_add(mixed(sum_of<call>(values...)), std::memory_order_relaxed);
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
    /// "clFinish(command_queue 3)", or nothing if the call is not known. Numbers from 2^48 on, most of them hashes, are
    /// hexadecimal.
    [[nodiscard]] std::string text(std::uint64_t number) const;

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

    // One odd factor for each value: sums then depend on the argument of each value, and the products are independent.
    static constexpr auto factors = [] {
        std::array<std::uint64_t, Call::most_values> made{};
        for (std::size_t i = 0; i < made.size(); ++i) made[i] = mixed((i + 1) * 0x9e3779b97f4a7c15U) | 1U;
        return made;
    }();

    template <const Call &call, typename... Numbers>
    static std::uint64_t sum_of(Numbers... values) {
        std::uint64_t sum = call.hash;
        [[maybe_unused]] std::size_t i = 0;
        [[maybe_unused]] const auto add = [&](std::uint64_t value) { sum += (value ^ value >> 32) * factors[i++]; };
        (add(static_cast<std::uint64_t>(values)), ...);
        return sum;
    }
    void note(std::thread::id thread);
    void keep_checkpoint(std::uint64_t number);
    [[nodiscard]] bool in_ring(std::uint64_t number) const;

    std::vector<Recorded> calls_ = std::vector<Recorded>(ring);
    std::vector<std::atomic<std::uint64_t>> checkpoints_ = std::vector<std::atomic<std::uint64_t>>(checkpoints);
    std::atomic<std::uint64_t> count_{0};
    std::atomic<bool> held_{false};
    std::uint64_t hash_ = 0;
    std::atomic<std::uint64_t> aside_{0};
    // Most programs have one thread that calls.
    void count_aside() {
        if (counting_thread_ == std::this_thread::get_id())
            asides_of_one_thread_.store(asides_of_one_thread_.load(std::memory_order_relaxed) + 1,
                                        std::memory_order_relaxed);
        else
            asides_.fetch_add(1, std::memory_order_relaxed);
    }

    std::atomic<std::uint64_t> asides_{0};
    std::atomic<std::uint64_t> asides_of_one_thread_{0};
    const std::thread::id counting_thread_ = std::this_thread::get_id();  // who begins the World
    bool counts_asides_ = false;
    std::thread::id thread_;  // of the last call
    std::atomic<bool> several_threads_{false};
};

/// Where the calls of two processes part.
struct Difference {
    std::uint64_t equal_until;  ///< the last call up to which all are known to be equal
    std::uint64_t differ_at;    ///< up to this one there is one that differs; the first one if it follows equal_until
    std::uint64_t several_threads = 0;  ///< whether calls of one of them came from more than one thread

    [[nodiscard]] bool exact() const { return differ_at == equal_until + 1; }
};

/// From what is known of both, which is not empty; one of the calls that both have made does differ.
Difference first_difference(std::span<const CallHash> a, std::span<const CallHash> b);

/// How the processes were started, which decides what to recommend if their calls differ.
enum class Start {
    with_answers,     ///< by `cldist run`: system calls return rank 0's results in all processes
    without_answers,  ///< each process has its own clocks, random numbers and files
    own_mpi           ///< the program has initialised MPI itself
};

/// What to print. The texts are those of call `differ_at`.
std::string difference_message(const Difference &difference, int rank_a, const std::string &text_a, int rank_b,
                               const std::string &text_b, Start start = Start::with_answers);

}  // namespace cldist::cluster
