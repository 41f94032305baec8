#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/interval_map.hpp"

namespace cldist::cluster {

/// Number of a command in the order of enqueues, the same in all processes; from 1.
using CommandId = std::uint64_t;
using QueueId = std::uint32_t;
/// The queue of commands on out-of-order queues, and of transfers: no other step is before or after them by itself.
inline constexpr QueueId unordered = ~QueueId{0};

/// What one process does for a command: the command itself (part 0), or one of its transfers (from 1).
struct Step {
    CommandId command = 0;
    std::uint32_t part = 0;

    bool operator==(const Step &) const = default;
    bool operator<(const Step &other) const {
        return command != other.command ? command < other.command : part < other.part;
    }
};

/// The steps that use the memory of one buffer on one device, and which of them must wait for which: whoever reads
/// waits for who wrote last, whoever writes for who read since or wrote last. Not thread-safe. Ranges are [begin, end).
class Hazards {
public:
    explicit Hazards(std::size_t size) : uses_(size) {}

    /// A step on `queue` reads or writes the range. Appends to `after` whom it must wait for, some perhaps twice; left
    /// out are those that are before it on the same in-order queue, and those of commands before `over`, which are
    /// known to have ended. `over` never decreases.
    void read(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over, std::vector<Step> &after);
    void write(std::size_t begin, std::size_t end, Step step, QueueId queue, CommandId over, std::vector<Step> &after);

    [[nodiscard]] std::size_t pieces() const { return uses_.pieces(); }

private:
    struct Use {
        Step step;
        QueueId queue = unordered;

        bool operator==(const Use &) const = default;
    };
    struct Uses {
        Use writer;                // command 0: nobody
        std::vector<Use> readers;  // since; each in-order queue's last one

        bool operator==(const Uses &) const = default;
        void forget(CommandId over);
    };

    void tidy(CommandId over);

    IntervalMap<Uses> uses_;
    std::size_t tidy_at_ = 16;  // pieces
};

}  // namespace cldist::cluster
