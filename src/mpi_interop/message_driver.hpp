#pragma once

#include <cstddef>
#include <vector>

#include "events/progress_thread.hpp"
#include "mpi_interop/adopted_requests.hpp"
#include "mpi_interop/inquiries.hpp"
#include "mpi_interop/message_order.hpp"

namespace cldist {

/// The state of an MPI request. Must not be moved while the request is in flight.
struct MessageTicket {
    bool done = false;
    int error = MPI_SUCCESS;
    std::size_t bytes = 0;         ///< bytes received
    const Waker *waker = nullptr;  ///< called when the request is done; may be null or empty
};

/// The MPI requests of one driving thread (the progress thread, or the caller of a blocking
/// command) for all its transfers.
class MessageDriver final : public Poller {
public:
    /// Only the progress thread has `inquiries`.
    explicit MessageDriver(Inquiries *inquiries = nullptr) : inquiries_(inquiries) {}

    /// Start a send or a receive. poll() sets the ticket to done. MPI errors are stored in the
    /// ticket. `synchronous`: done only when the receiver has matched the message.
    void send(const void *data, std::size_t bytes, int dest, int tag, MPI_Comm comm,
              MessageTicket &ticket, bool synchronous = false);
    void receive(void *data, std::size_t bytes, int source, int tag, MPI_Comm comm,
                 MessageTicket &ticket);
    void receive(void *data, std::size_t bytes, MatchedMessage &message, MessageTicket &ticket);

    /// Tracks a request that a non-blocking MPI call returned together with `code`.
    void add(int code, MPI_Request request, MessageTicket &ticket);

    /// Announces the receive in the message order. poll() probes for its message. Any thread.
    void match(PendingMatch &pending) { message_order().announce(pending, watches_); }

    /// Users' requests, which poll() also tests.
    AdoptedRequests &adopted() { return adopted_; }

    bool poll() override;
    void tick() override {
        if (inquiries_ != nullptr) inquiries_->tick();
    }

private:
    bool poll_requests();
    bool poll_requests(std::size_t begin, std::size_t end);
    void close_gaps();

    std::vector<MPI_Request> requests_;     ///< oldest first; null after the end of a request
    std::vector<MessageTicket *> tickets_;  ///< one per request
    std::size_t first_ = 0;                 ///< all requests before it have ended
    std::size_t ended_ = 0;                 ///< number of ended requests
    std::size_t next_ = 0;                  ///< next position of the rotation
    std::vector<int> indices_;
    std::vector<MPI_Status> statuses_;
    AdoptedRequests adopted_;
    Inquiries *const inquiries_;

    Watches watches_;  ///< guarded by the message order
};

/// Drives the blocking commands of the calling thread. It is kept between commands because its
/// creation is expensive.
MessageDriver &caller_driver();

}  // namespace cldist
