#pragma once

#include <cstddef>
#include <vector>

#include "events/engine.hpp"
#include "mpi_interop/adopted_requests.hpp"
#include "mpi_interop/inquiries.hpp"
#include "mpi_interop/message_order.hpp"

namespace cldist {

/// A request to MPI that is to be waited for. Stays where it is while in flight.
struct MessageTicket {
    bool done = false;
    int error = MPI_SUCCESS;
    std::size_t bytes = 0;         ///< received
    const Waker *waker = nullptr;  ///< called when it is done; may be null, or empty
};

/// What one driving thread (the engine, or the caller of a blocking command) asks MPI, for all its transfers at once.
class MessageDriver final : public Poller {
public:
    /// `inquiries` are the engine's.
    explicit MessageDriver(Inquiries *inquiries = nullptr) : inquiries_(inquiries) {}

    /// Sends or receives a block; the ticket is done when MPI says so. Errors go to the ticket.
    /// `synchronous`: done only once the message is being received.
    void send(const void *data, std::size_t bytes, int dest, int tag, MPI_Comm comm, MessageTicket &ticket,
              bool synchronous = false);
    void receive(void *data, std::size_t bytes, int source, int tag, MPI_Comm comm, MessageTicket &ticket);
    void receive(void *data, std::size_t bytes, MatchedMessage &message, MessageTicket &ticket);

    /// Waits for what a call of MPI that returned `code` has begun.
    void add(int code, MPI_Request request, MessageTicket &ticket);

    /// Looks for the receive's message, behind all receives announced before. Any thread.
    void match(PendingMatch &pending) { message_order().announce(pending, watches_); }

    /// Requests of the user's, asked about with the rest.
    AdoptedRequests &adopted() { return adopted_; }

    bool poll() override;
    void tick() override {
        if (inquiries_ != nullptr) inquiries_->tick();
    }

private:
    bool poll_requests();
    bool poll_requests(std::size_t begin, std::size_t end);
    void close_gaps();

    std::vector<MPI_Request> requests_;     ///< oldest first; null where one has ended
    std::vector<MessageTicket *> tickets_;  ///< of each
    std::size_t first_ = 0;                 ///< none before it is left
    std::size_t ended_ = 0;                 ///< how many have ended
    std::size_t next_ = 0;                  ///< from where to ask in turn
    std::vector<int> indices_;
    std::vector<MPI_Status> statuses_;
    AdoptedRequests adopted_;
    Inquiries *const inquiries_;

    Watches watches_;  ///< guarded by the order of messages
};

/// What drives the blocking commands of the calling thread; kept, since it is empty between them but not small.
MessageDriver &caller_driver();

}  // namespace cldist
