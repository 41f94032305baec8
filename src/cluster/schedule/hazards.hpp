#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/schedule/interval_map.hpp"

namespace cldist::cluster {

/// Number of a command in the order of enqueues, from 1. Numbers differ between processes, because
/// a process leaves out commands that do not concern it.
using CommandId = std::uint64_t;
using QueueId = std::uint32_t;
/// The queue of transfers and of commands on out-of-order queues: no queue orders these steps.
inline constexpr QueueId unordered = ~QueueId{0};

/// A step of one process for a command: the command itself (part 0) or a transfer (parts from 1).
struct Step {
    CommandId command = 0;
    std::uint32_t part = 0;

    auto operator<=>(const Step &) const = default;
};

/// Orders the steps that use one buffer in one device memory. A reader waits for the last writer. A
/// writer waits for the readers since the last write or, if there are none, for the last writer.
/// Not thread-safe. Ranges are [begin, end) in bytes.
class Hazards {
public:
    explicit Hazards(std::size_t size) : uses_(size) {}

    /// Records that a step on `queue` reads or writes the range. Appends to `after` the steps that
    /// it must wait for, possibly with duplicates. Omits earlier steps of the same in-order queue,
    /// writers that an earlier reader on that queue waited for, and steps of commands before
    /// `over`, which have ended. `over` must not decrease between calls.
    void read(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
              std::vector<Step> &after);
    void write(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
               std::vector<Step> &after);

    [[nodiscard]] std::size_t pieces() const { return uses_.pieces(); }
    /// The allocated bytes.
    [[nodiscard]] std::size_t bytes() const {
        std::size_t bytes = uses_.bytes();
        uses_.visit(0, uses_.size(), [&](std::size_t, std::size_t, const Uses &uses) {
            bytes +=
                uses.in_order.capacity() * sizeof(Use) + uses.unordered.capacity() * sizeof(Step);
        });
        return bytes;
    }
    /// How many uses read() and write() have examined: their cost besides the number of pieces.
    [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

private:
    struct Use {
        Step step;
        QueueId queue = unordered;

        bool operator==(const Use &) const = default;
    };
    /// The last writer and the readers since then. Readers that have ended are removed only once
    /// they may be half of all readers.
    struct Uses {
        Use writer;                   // command 0 if there is none
        std::vector<Use> in_order;    // the last reader on each in-order queue, by queue
        std::vector<Step> unordered;  // the other readers, by command
        std::size_t forget_at = few;  // number of readers that calls forget()

        bool operator==(const Uses &other) const {
            return writer == other.writer && in_order == other.in_order &&
                   unordered == other.unordered;
        }
    };
    static constexpr std::size_t few = 8;

    void forget(Uses &uses, CommandId over);
    void add_reader(Uses &uses, const Use &reader);
    static void add_wait(const Use &use, const Use &by, CommandId over, std::vector<Step> &after) {
        const bool is_before =
            use.step == by.step || (by.queue != unordered && use.queue == by.queue);
        if (use.step.command >= over && use.step.command != 0 && !is_before)
            after.push_back(use.step);
    }
    void tidy(CommandId over);

    IntervalMap<Uses> uses_;
    std::size_t tidy_at_ = 16;  // number of pieces
    std::uint64_t looked_at_ = 0;
};

}  // namespace cldist::cluster
