/// The plan of the stress test. It is a pure function of the settings, so every process knows the
/// commands of all processes.
///
/// Messages are sent in rounds, with a barrier in between. A round is one list of commands, and
/// each thread of each process issues its own commands in the order of the list. The commands of
/// one message, or of one ring of Sendrecvs, are adjacent. A command waits only for its partners
/// and for earlier commands, so some command can always proceed: a plan has no deadlock. Three
/// kinds of messages need more rules.
///
/// Messages with equal sender, receiver, tag and communicator must keep their order. At each end
/// they use one thread and one queue, and have no wait list if that queue is out-of-order. Other
/// messages have unique tags, and use any thread and queue.
///
/// In a round, at most one process has receives with wildcards. Either all accept any source and
/// have the same tag, or all accept any tag. They are large enough for any of the messages, because
/// it is unknown which message each gets. They have their own communicator and queue, and precede
/// all other commands.
///
/// Competing receives have various wildcards. They use two separate communicators, one of them in
/// plain mode. On each, one thread of one process sends all messages of a round in order, and the
/// receives are posted in the same order. So MPI's rules determine which message each receive gets.
/// The last receive of a group may block, after a probe.
///
/// To add another kind of traffic: add its fields to `command`, choose it in plan.cpp where the
/// ends of a message are created, and execute it in stress.cpp (`worker::issue`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cldist_stress {

struct settings {
    std::uint64_t seed = 1;
    std::uint64_t messages = 2000;
    int ranks = 4;
    int threads = 2;
    std::size_t largest = std::size_t{4} << 20;  ///< bytes
    /// Percentage of the commands that get a sub-buffer.
    std::uint64_t sub_buffers = 15;
};

/// Ranks are those of MPI_COMM_WORLD, except in `rank_in`.
struct communicator {
    const char *name;
    bool inter;                ///< messages go to the other group, not to the sender's
    std::vector<int> group;    ///< the group of each rank
    std::vector<int> rank_in;  ///< the rank of each process in its group
    bool plain = false;        ///< messages have no headers

    [[nodiscard]] bool reaches(int from, int to) const {
        const auto at = [this](int rank) { return group[static_cast<std::size_t>(rank)]; };
        return (at(from) == at(to)) != inter;
    }
    [[nodiscard]] int number_of(int rank) const { return rank_in[static_cast<std::size_t>(rank)]; }
};

/// The last communicator is for receives with wildcards, the two before it for competing receives.
std::vector<communicator> communicators(int ranks);

struct message {
    std::uint64_t number;
    int communicator;
    int sender;
    int receiver;
    int tag;
    std::size_t size;
};

/// The queues of a thread.
enum queue_of_thread : int {
    first,
    second,
    out_of_order,
    shared_by_threads,
    wild,
    wild_out_of_order,
    competing,
    queue_count
};

/// The wait list of a command.
enum class waits_for { nothing, writing, user_event, previous };

inline constexpr int none = -1;

/// One call: a send, a receive, or both.
struct command {
    int rank = 0;
    int thread = 0;
    int sends = none;     ///< index of the message
    int receives = none;  ///< index of the message
    int queue = first;
    bool blocking = false;
    bool wants_event = true;
    waits_for wait = waits_for::nothing;
    std::size_t capacity = 0;  ///< bytes of the receive
    bool too_short = false;    ///< the receive is smaller than its message
    bool sub_buffer = false;
    bool read_behind = false;  ///< a read that waits for the receive's event follows
    bool overwritten = false;  ///< a fill that waits for the event overwrites the sent bytes

    // For a competing receive.
    bool competes = false;
    bool any_source = false;
    bool any_tag = false;
    bool probes = false;  ///< probes before the call

    // For a receive with wildcards.
    bool with_wildcards = false;
    int source = none;  ///< none for MPI_ANY_SOURCE
    int tag = none;     ///< none for MPI_ANY_TAG
};

struct round_plan {
    std::vector<message> messages;
    std::vector<command> commands;
};

round_plan make_round(const settings &s, std::uint64_t number);

/// The bytes of a message, which depend on everything that distinguishes it from other messages.
std::vector<unsigned char> payload(std::uint64_t seed, const message &m);
/// The initial contents of the receiving buffers.
std::vector<unsigned char> background(std::uint64_t seed, std::size_t size);

std::string describe(const round_plan &r, const command &c);

}  // namespace cldist_stress
