#pragma once

#include <cstddef>
#include <vector>

#include "events/engine.hpp"
#include "mpi_interop/adopted_requests.hpp"
#include "mpi_interop/message_order.hpp"

namespace cldist {

/// A request to MPI that is to be waited for. Stays where it is while in flight.
struct MessageTicket {
    bool done = false;
    int error = MPI_SUCCESS;
    std::size_t bytes = 0;  ///< received
};

/// What one driving thread (the engine, or the caller of a blocking command) asks MPI, for all its transfers at once.
class MessageDriver final : public Poller {
public:
    /// Sends or receives a block; the ticket is done when MPI says so. Errors go to the ticket.
    /// `synchronous`: done only once the message is being received.
    void send(const void *data, std::size_t bytes, int dest, int tag, MPI_Comm comm, MessageTicket &ticket,
              bool synchronous = false);
    void receive(void *data, std::size_t bytes, int source, int tag, MPI_Comm comm, MessageTicket &ticket);
    void receive(void *data, std::size_t bytes, MatchedMessage &message, MessageTicket &ticket);

    /// Looks for the receive's message, behind all receives announced before. Any thread.
    void match(PendingMatch &pending) { message_order().announce(pending, watches_); }

    /// Requests of the user's, asked about with the rest.
    AdoptedRequests &adopted() { return adopted_; }

    bool poll() override;

private:
    void add(int code, MPI_Request request, MessageTicket &ticket);
    bool poll_requests();

    std::vector<MPI_Request> requests_;
    std::vector<MessageTicket *> tickets_;
    std::vector<int> indices_;
    std::vector<MPI_Status> statuses_;
    AdoptedRequests adopted_;

    Watches watches_;  ///< guarded by the order of messages
};

/// What drives the blocking commands of the calling thread; kept, since it is empty between them but not small.
MessageDriver &caller_driver();

}  // namespace cldist
