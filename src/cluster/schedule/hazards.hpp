#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/schedule/interval_map.hpp"

namespace cldist::cluster {

/// Number of a command in the order of enqueues, from 1: a process's own, since processes leave out
/// commands that are none of their business.
using CommandId = std::uint64_t;
using QueueId = std::uint32_t;
/// The queue of commands on out-of-order queues, and of transfers: no other step is before or after
/// them by itself.
inline constexpr QueueId unordered = ~QueueId{0};

/// A step of one process for a command: the command itself (part 0), or one of its transfers (from
/// 1).
struct Step {
    CommandId command = 0;
    std::uint32_t part = 0;

    bool operator==(const Step &) const = default;
    bool operator<(const Step &other) const {
        return command != other.command ? command < other.command : part < other.part;
    }
};

/// The steps that use the memory of one buffer on one device, and the order among them: a reader
/// waits for the last writer, a writer for the readers since then or for the last writer. Not
/// thread-safe. Ranges are [begin, end).
class Hazards {
public:
    explicit Hazards(std::size_t size) : uses_(size) {}

    /// A step on `queue` reads or writes the range. Appends to `after` the steps that it must wait
    /// for, some perhaps twice. Omitted are steps before it on the same in-order queue, and writers
    /// for which a reader before it on that queue waited. Steps of commands before `over` have
    /// ended and are omitted, too. `over` never decreases.
    void read(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
              std::vector<Step> &after);
    void write(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over,
               std::vector<Step> &after);

    [[nodiscard]] std::size_t pieces() const { return uses_.pieces(); }
    /// What it has allocated.
    [[nodiscard]] std::size_t bytes() const {
        std::size_t bytes = uses_.bytes();
        uses_.visit(0, uses_.size(), [&](std::size_t, std::size_t, const Uses &uses) {
            bytes +=
                uses.in_order.capacity() * sizeof(Use) + uses.unordered.capacity() * sizeof(Step);
        });
        return bytes;
    }
    /// How many uses have been looked at so far: what the functions above cost beside the pieces.
    [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }

private:
    struct Use {
        Step step;
        QueueId queue = unordered;

        bool operator==(const Use &) const = default;
    };
    /// Readers are those since the writer. They may be over: these are looked for once they may be
    /// half of all.
    struct Uses {
        Use writer;                   // command 0: nobody
        std::vector<Use> in_order;    // each in-order queue's last reader, by queue
        std::vector<Step> unordered;  // readers of no such queue, by command
        std::size_t forget_at = few;  // so many readers

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
    std::size_t tidy_at_ = 16;  // pieces
    std::uint64_t looked_at_ = 0;
};

}  // namespace cldist::cluster
