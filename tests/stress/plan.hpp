/// The plan of the stress test: a pure function of its settings, so that every process knows all
/// processes' commands.
///
/// Messages are sent in rounds, with a barrier in between. All threads of all processes follow one
/// common order of the commands of a round; the commands of one message, or of one ring of
/// Sendrecvs, are adjacent in it. A command waits only for its partners and for earlier commands,
/// so some command can always proceed: a plan has no deadlock. Three kinds of messages need more
/// rules.
///
/// Messages with equal sender, receiver, tag and communicator must keep their order. So at each end
/// they all belong to one thread and one queue. If that queue is out-of-order, they have no wait
/// list. Other messages have unique tags, and use any thread and queue.
///
/// Receives with wildcards have equal arguments for one receiver in one round, so that any of them
/// may get any of the messages. They have their own communicator and queue, and precede all other
/// commands.
///
/// Competing receives have various wildcards. They have two separate communicators, one of them
/// in plain mode. In a round, one thread of one process sends all their messages in order, and the
/// receives are posted in that order. So MPI's rules determine which message each receive gets. The
/// last receive of a group may block, after a probe.
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

/// Ranks are those of MPI_COMM_WORLD, except in names with "in".
struct communicator {
    const char *name;
    bool inter;                ///< whether messages go to the other group instead of the own one
    std::vector<int> group;    ///< the group of each rank
    std::vector<int> rank_in;  ///< the number of each rank in its group
    bool plain = false;        ///< messages have no headers

    [[nodiscard]] bool reaches(int from, int to) const {
        const auto at = [this](int rank) { return group[static_cast<std::size_t>(rank)]; };
        return (at(from) == at(to)) != inter;
    }
    [[nodiscard]] int number_of(int rank) const { return rank_in[static_cast<std::size_t>(rank)]; }
};

/// The last communicator is for wildcards, the two before it are for competing receives.
std::vector<communicator> communicators(int ranks);

struct message {
    std::uint64_t number;
    int communicator;
    int sender;
    int receiver;
    int tag;
    std::size_t size;
};

/// The queue of a thread that a command uses.
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
    std::size_t capacity = 0;  ///< of the receive, in bytes
    bool too_short = false;    ///< the receive is smaller than its message
    bool sub_buffer = false;
    bool read_behind = false;  ///< a read waits for the receive's event
    bool overwritten = false;  ///< the sent bytes are overwritten as soon as the event allows it

    // A competing receive.
    bool competes = false;
    bool any_source = false;
    bool any_tag = false;
    bool probes = false;  ///< probes before the call

    // A receive with wildcards.
    bool with_wildcards = false;
    int source = none;  ///< none for MPI_ANY_SOURCE
    int tag = none;     ///< none for MPI_ANY_TAG
};

struct round_plan {
    std::vector<message> messages;
    std::vector<command> commands;
};

round_plan make_round(const settings &s, std::uint64_t number);

/// The bytes of a message depend on everything that distinguishes it from other messages.
std::vector<unsigned char> payload(std::uint64_t seed, const message &m);
/// Bytes that no message contains.
std::vector<unsigned char> background(std::uint64_t seed, std::size_t size);

std::string describe(const round_plan &r, const command &c);

}  // namespace cldist_stress
