#include "mpi_interop/message_driver.hpp"

#include "base/per_thread.hpp"
#include "mpi_interop/byte_type.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/own_yields.hpp"

namespace cldist {
namespace {

// A round tests this many of the oldest requests, which usually end first, and as many others.
constexpr std::size_t asked_at_once = 512;

}  // namespace

void MessageDriver::send(const void *data, std::size_t bytes, int dest, int tag, MPI_Comm comm,
                         MessageTicket &ticket, bool synchronous) {
    MPI_Request request = MPI_REQUEST_NULL;
    const ByteType size(bytes);
    const int code = synchronous
                         ? PMPI_Issend(data, size.count(), size.type(), dest, tag, comm, &request)
                         : PMPI_Isend(data, size.count(), size.type(), dest, tag, comm, &request);
    add(code, request, ticket);
}

void MessageDriver::receive(void *data, std::size_t bytes, int source, int tag, MPI_Comm comm,
                            MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const ByteType size(bytes);
    const int code = PMPI_Irecv(data, size.count(), size.type(), source, tag, comm, &request);
    add(code, request, ticket);
}

void MessageDriver::receive(void *data, std::size_t bytes, MatchedMessage &message,
                            MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const ByteType size(bytes);
    const int code = PMPI_Imrecv(data, size.count(), size.type(), &message.message, &request);
    add(code, request, ticket);
}

void MessageDriver::add(int code, MPI_Request request, MessageTicket &ticket) {
    ticket = {.waker = ticket.waker};
    if (code != MPI_SUCCESS) {
        ticket.done = true;
        ticket.error = code;
        return;
    }
    requests_.push_back(request);
    tickets_.push_back(&ticket);
}

bool MessageDriver::poll() {
    const bool requests = poll_requests();
    const bool adopted = adopted_.poll();
    return message_order().probe(watches_) || requests || adopted;
}

bool MessageDriver::poll_requests() {
    if (requests_.empty()) return false;
    const std::size_t oldest = std::min(first_ + asked_at_once, requests_.size());
    bool moved = poll_requests(first_, oldest);
    if (oldest < requests_.size()) {
        if (next_ < oldest || next_ >= requests_.size()) next_ = oldest;
        const std::size_t begin =
            std::exchange(next_, std::min(next_ + asked_at_once, requests_.size()));
        moved |= poll_requests(begin, next_);
    }
    if (moved) close_gaps();
    return moved;
}

bool MessageDriver::poll_requests(std::size_t begin, std::size_t end) {
    indices_.resize(end - begin);
    statuses_.resize(end - begin);
    int ended = 0;
    const OwnYields own_yields;
    const int code = PMPI_Testsome(static_cast<int>(end - begin), requests_.data() + begin, &ended,
                                   indices_.data(), statuses_.data());
    if (ended == MPI_UNDEFINED || ended <= 0) return false;
    for (int i = 0; i < ended; ++i) {
        const std::size_t at =
            begin + static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
        MPI_Status &status = statuses_[static_cast<std::size_t>(i)];
        MessageTicket &ticket = *std::exchange(tickets_[at], nullptr);
        ticket.error = code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : code;
        ticket.bytes = bytes_of(status);
        ticket.done = true;
        if (ticket.waker != nullptr && *ticket.waker) (*ticket.waker)();
    }
    ended_ += static_cast<std::size_t>(ended);
    return true;
}

void MessageDriver::close_gaps() {
    while (first_ < tickets_.size() && tickets_[first_] == nullptr) ++first_;
    // Compact only if a quarter has ended, so that each request is moved only a few times.
    if (ended_ * 4 < tickets_.size()) return;
    std::size_t kept = 0;
    for (std::size_t i = first_; i < tickets_.size(); ++i) {
        if (tickets_[i] == nullptr) continue;
        tickets_[kept] = tickets_[i];
        requests_[kept] = requests_[i];
        ++kept;
    }
    tickets_.resize(kept);
    requests_.resize(kept);
    first_ = ended_ = 0;
}

MessageDriver &caller_driver() { return per_thread<MessageDriver>(); }

}  // namespace cldist
