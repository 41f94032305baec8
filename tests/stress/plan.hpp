/// What the stress test does: a pure function of its settings, so that every process knows what all of them do.
///
/// The messages come in rounds; all processes meet between two. The commands of a round are in one order that all
/// threads of all processes keep, those of one message, or one ring of Sendrecvs, side by side. A command waits for
/// its partners and for what stands before them only, so something can always move: a plan has no deadlock, whatever it
/// mixes. Two things need more care.
///
/// Messages with equal sender, receiver, tag and communicator must keep their order, so on each side they all belong to
/// one thread and one queue, and have no wait list where that queue is out-of-order. Other messages have a tag of their
/// own, and may go anywhere.
///
/// Receives with wildcards are alike in all that MPI matches by, for one receiver in one round, so that any of them
/// may get any of the messages. They have a communicator and a queue of their own, and come before all else.
///
/// Receives that compete have wildcards or not, each of its own, on two communicators of theirs, one of them with plain messages.
/// In a round one process sends there to another, by one thread in one order, and its receives are posted in that order; so MPI's
/// rules say which message each of them gets, whatever it accepts besides. The last of a group may block, behind a probe.
///
/// To add another kind of traffic: give `command` what it needs, choose it in plan.cpp where the ends of a message are
/// made, and do it in stress.cpp (`worker::issue`).
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
};

/// Ranks are those of MPI_COMM_WORLD unless it says "in".
struct communicator {
    const char *name;
    bool inter;                ///< then one reaches the other group, else the own
    std::vector<int> group;    ///< of each rank
    std::vector<int> rank_in;  ///< of each rank, in its group
    bool plain = false;        ///< messages have no envelopes

    [[nodiscard]] bool reaches(int from, int to) const {
        const auto at = [this](int rank) { return group[static_cast<std::size_t>(rank)]; };
        return (at(from) == at(to)) != inter;
    }
    [[nodiscard]] int number_of(int rank) const { return rank_in[static_cast<std::size_t>(rank)]; }
};

/// The last one is for wildcards, the two before it are for receives that compete.
std::vector<communicator> communicators(int ranks);

struct message {
    std::uint64_t number;
    int communicator;
    int sender;
    int receiver;
    int tag;
    std::size_t size;
};

/// Which of its thread's queues a command is in.
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

/// What is in the wait list of a command.
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
    std::size_t capacity = 0;  ///< of the receive, bytes
    bool too_short = false;    ///< the receive, for its message
    bool sub_buffer = false;
    bool read_behind = false;  ///< a read waits for the receive's event
    bool overwritten = false;  ///< what was sent is overwritten as soon as the event allows it

    // A receive that competes.
    bool competes = false;
    bool any_source = false;
    bool any_tag = false;
    bool probes = false;  ///< before the call

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

/// The bytes of a message depend on all that tells it from others.
std::vector<unsigned char> payload(std::uint64_t seed, const message &m);
/// Bytes that no message has.
std::vector<unsigned char> background(std::uint64_t seed, std::size_t size);

std::string describe(const round_plan &r, const command &c);

}  // namespace cldist_stress
