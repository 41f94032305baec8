#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "mpi_interop/communicator.hpp"

namespace cldist {

/// A message that MPI has matched with a receive.
struct MatchedMessage {
    MPI_Message message = MPI_MESSAGE_NULL;
    int source = MPI_PROC_NULL;
    int tag = 0;
    std::size_t bytes = 0;
    int error = MPI_SUCCESS;
    std::vector<std::byte> content;  ///< if it was received already; `message` is null then
};

/// Which messages a receive takes.
struct MessagePattern {
    std::shared_ptr<const Communicator> comm;
    int source;  ///< or MPI_ANY_SOURCE
    int tag;     ///< or MPI_ANY_TAG

    [[nodiscard]] bool accepts(int from, int with_tag) const {
        return (source == MPI_ANY_SOURCE || source == from) && (tag == MPI_ANY_TAG || tag == with_tag);
    }
    bool operator==(const MessagePattern &) const = default;
};

/// Receives of one pattern that one thread looks after; they share a probe.
struct Watch {
    MessagePattern pattern;
    std::size_t count = 0;
};
using Watches = std::list<Watch>;

/// A receive that waits for its message.
struct PendingMatch {
    MessagePattern pattern;
    MatchedMessage message;         ///< once done
    std::atomic<bool> done{false};  ///< may be set by a thread that looked for another receive's message
    Watch *watch = nullptr;
};

/// A send that has yet to post its message: where to, and which one it is.
struct SendTurn {
    const Communicator *comm;
    int dest;
    int tag;
    const void *sender;
};

/// The order of messages in the process, whichever threads drive them: receives get messages in the order in which they
/// were announced, and sends with equal communicator, destination and tag post theirs in the order of their turns.
/// Thread-safe.
///
/// Receives are matched by probing instead of being posted: so a message of any length or kind can be met without
/// raising an error on the user's communicator, a pending receive holds no memory, and it can be given up.
class MessageOrder {
public:
    /// Looks for a message from now on, behind all receives announced before, whenever somebody probes `watches`.
    void announce(PendingMatch &pending, Watches &watches);
    /// Gives up a receive that may not be done.
    void forget(PendingMatch &pending);
    /// Whether a message was found, for whomever.
    bool probe(Watches &watches);

    /// Whether no receive is pending and nothing is put back: then look() and take() do what MPI_Iprobe and MPI_Improbe do.
    [[nodiscard]] bool quiet() const { return not_quiet_ == 0; }
    /// The message that a receive of this pattern would get if it were announced now; it stays where it is.
    std::optional<MatchedMessage> look(const MessagePattern &pattern);
    /// The same, taken.
    std::optional<MatchedMessage> take(const MessagePattern &pattern);
    /// Gives back what take() gave: to the next receive that accepts it.
    void put_back(std::shared_ptr<const Communicator> comm, MatchedMessage message);

    void take_turn(const SendTurn &turn);
    /// Whether no turn taken before is in the way: of a sender that took one, or of one that did not.
    [[nodiscard]] bool may_post(const SendTurn &turn) const;
    void leave_turn(const SendTurn &turn);

private:
    using Pending = std::list<PendingMatch *>::iterator;
    struct PutBack {
        std::shared_ptr<const Communicator> comm;
        MatchedMessage message;
    };

    bool probe(const Watch &watch);
    Pending first_that_accepts(const Communicator *comm, int source, int tag);
    std::list<PutBack>::iterator put_back_for(const MessagePattern &pattern);
    void remove(Pending pending);
    void give(Pending pending, MatchedMessage message);

    mutable std::mutex mutex_;
    std::list<PendingMatch *> pending_;
    std::list<PutBack> put_back_;  ///< accepted by none of the pending
    std::atomic<std::size_t> not_quiet_ = 0;
    using SendKey = std::tuple<const Communicator *, int, int>;
    std::map<SendKey, std::list<const void *>> turns_;
    std::atomic<std::size_t> turns_taken_ = 0;
};

/// The one of the process.
MessageOrder &message_order();

}  // namespace cldist
