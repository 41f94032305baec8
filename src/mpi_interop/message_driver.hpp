#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "events/engine.hpp"
#include "mpi_interop/communicator.hpp"

namespace cldist {

/// A request to MPI that is to be waited for. Stays where it is while in flight.
struct MessageTicket {
    bool done = false;
    int error = MPI_SUCCESS;
    int bytes = 0;  ///< received
};

/// A message that MPI has matched with a receive.
struct MatchedMessage {
    MPI_Message message = MPI_MESSAGE_NULL;
    int source = MPI_PROC_NULL;
    int tag = 0;
    int bytes = 0;
    int error = MPI_SUCCESS;
};

/// A receive that waits for its message.
struct PendingMatch {
    std::shared_ptr<const Communicator> comm;
    int source;  ///< or MPI_ANY_SOURCE
    int tag;     ///< or MPI_ANY_TAG
    bool done = false;
    MatchedMessage message;

    [[nodiscard]] bool accepts(int from, int with_tag) const {
        return (source == MPI_ANY_SOURCE || source == from) && (tag == MPI_ANY_TAG || tag == with_tag);
    }
};

/// A send that has yet to post its message: where to, and which one it is.
struct SendTurn {
    const Communicator *comm;
    int dest;
    int tag;
    const void *sender;
};

/// What one driving thread (the engine, or the caller of a blocking command) asks MPI, for all its transfers at once.
///
/// Receives are matched by probing instead of being posted: so a message of any length or kind can be met without
/// raising an error on the user's communicator, a pending receive holds no memory, and it can be given up.
class MessageDriver final : public Poller {
public:
    /// Sends or receives a block; the ticket is done when MPI says so. Errors go to the ticket.
    void send(const void *data, int bytes, int dest, int tag, MPI_Comm comm, MessageTicket &ticket);
    void receive(void *data, int bytes, int source, int tag, MPI_Comm comm, MessageTicket &ticket);
    void receive(void *data, int bytes, MatchedMessage &message, MessageTicket &ticket);

    /// Looks for a message from now on, behind all matches asked for before.
    void match(PendingMatch &pending);
    /// Gives up a match that is not done.
    void forget(const PendingMatch &pending);

    /// Sends with equal communicator, destination and tag post their messages in the order in which they took turns.
    void take_turn(const SendTurn &turn);
    [[nodiscard]] bool has_turn(const SendTurn &turn) const;
    void leave_turn(const SendTurn &turn);

    bool poll() override;

private:
    /// Receives of one pattern share a probe; `pending` is in the order they were asked.
    struct Pattern {
        std::shared_ptr<const Communicator> comm;
        int source;
        int tag;
        std::size_t count;
    };

    void add(int code, MPI_Request request, MessageTicket &ticket);
    bool poll_requests();
    bool poll_matches();
    bool probe(const Pattern &pattern);
    void finish(std::list<PendingMatch *>::iterator pending);

    std::vector<MPI_Request> requests_;
    std::vector<MessageTicket *> tickets_;
    std::vector<int> indices_;
    std::vector<MPI_Status> statuses_;

    std::list<PendingMatch *> pending_;
    std::vector<Pattern> patterns_;

    using SendKey = std::tuple<const Communicator *, int, int>;
    std::map<SendKey, std::deque<const void *>> turns_;
};

}  // namespace cldist
