#include "mpi_interop/message_driver.hpp"

#include "mpi_interop/byte_type.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {

void MessageDriver::send(const void *data, std::size_t bytes, int dest, int tag, MPI_Comm comm, MessageTicket &ticket,
                         bool synchronous) {
    MPI_Request request = MPI_REQUEST_NULL;
    const ByteType size(bytes);
    const int code = synchronous ? PMPI_Issend(data, size.count(), size.type(), dest, tag, comm, &request)
                                 : PMPI_Isend(data, size.count(), size.type(), dest, tag, comm, &request);
    add(code, request, ticket);
}

void MessageDriver::receive(void *data, std::size_t bytes, int source, int tag, MPI_Comm comm, MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const ByteType size(bytes);
    const int code = PMPI_Irecv(data, size.count(), size.type(), source, tag, comm, &request);
    add(code, request, ticket);
}

void MessageDriver::receive(void *data, std::size_t bytes, MatchedMessage &message, MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const ByteType size(bytes);
    const int code = PMPI_Imrecv(data, size.count(), size.type(), &message.message, &request);
    add(code, request, ticket);
}

void MessageDriver::add(int code, MPI_Request request, MessageTicket &ticket) {
    ticket = {};
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
    const int count = static_cast<int>(requests_.size());
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int ended = 0;
    const int code = PMPI_Testsome(count, requests_.data(), &ended, indices_.data(), statuses_.data());
    if (ended == MPI_UNDEFINED || ended <= 0) return false;
    for (int i = 0; i < ended; ++i) {
        const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
        MPI_Status &status = statuses_[static_cast<std::size_t>(i)];
        MessageTicket &ticket = *tickets_[at];
        if (code == MPI_ERR_IN_STATUS)
            ticket.error = status.MPI_ERROR;
        else
            ticket.error = code;
        ticket.bytes = bytes_of(status);
        ticket.done = true;
        tickets_[at] = nullptr;
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tickets_.size(); ++i) {
        if (tickets_[i] == nullptr) continue;
        tickets_[kept] = tickets_[i];
        requests_[kept] = requests_[i];
        ++kept;
    }
    tickets_.resize(kept);
    requests_.resize(kept);
    return true;
}

MessageDriver &caller_driver() {
    static thread_local MessageDriver driver;
    return driver;
}

}  // namespace cldist
