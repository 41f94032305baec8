#include "mpi_interop/message_driver.hpp"

#include <algorithm>

namespace cldist {

void MessageDriver::send(const void *data, int bytes, int dest, int tag, MPI_Comm comm, MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = PMPI_Isend(data, bytes, MPI_BYTE, dest, tag, comm, &request);
    add(code, request, ticket);
}

void MessageDriver::receive(void *data, int bytes, int source, int tag, MPI_Comm comm, MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = PMPI_Irecv(data, bytes, MPI_BYTE, source, tag, comm, &request);
    add(code, request, ticket);
}

void MessageDriver::receive(void *data, int bytes, MatchedMessage &message, MessageTicket &ticket) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = PMPI_Imrecv(data, bytes, MPI_BYTE, &message.message, &request);
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
    return poll_matches() || requests;
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
        PMPI_Get_count(&status, MPI_BYTE, &ticket.bytes);
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

void MessageDriver::match(PendingMatch &pending) {
    pending_.push_back(&pending);
    const auto same = std::find_if(patterns_.begin(), patterns_.end(), [&](const Pattern &p) {
        return p.comm == pending.comm && p.source == pending.source && p.tag == pending.tag;
    });
    if (same != patterns_.end())
        ++same->count;
    else
        patterns_.push_back({pending.comm, pending.source, pending.tag, 1});
}

void MessageDriver::forget(const PendingMatch &pending) {
    const auto at = std::find(pending_.begin(), pending_.end(), &pending);
    if (at != pending_.end()) finish(at);
}

void MessageDriver::finish(std::list<PendingMatch *>::iterator at) {
    const PendingMatch &pending = **at;
    const auto pattern = std::find_if(patterns_.begin(), patterns_.end(), [&](const Pattern &p) {
        return p.comm == pending.comm && p.source == pending.source && p.tag == pending.tag;
    });
    --pattern->count;
    pending_.erase(at);
}

void MessageDriver::take_turn(const SendTurn &turn) { turns_[{turn.comm, turn.dest, turn.tag}].push_back(turn.sender); }

bool MessageDriver::has_turn(const SendTurn &turn) const {
    return turns_.at({turn.comm, turn.dest, turn.tag}).front() == turn.sender;
}

void MessageDriver::leave_turn(const SendTurn &turn) {
    const auto senders = turns_.find({turn.comm, turn.dest, turn.tag});
    std::erase(senders->second, turn.sender);
    if (senders->second.empty()) turns_.erase(senders);
}

bool MessageDriver::poll_matches() {
    bool matched = false;
    for (const Pattern &pattern : patterns_)
        while (pattern.count != 0 && probe(pattern)) matched = true;
    std::erase_if(patterns_, [](const Pattern &p) { return p.count == 0; });
    return matched;
}

bool MessageDriver::probe(const Pattern &pattern) {
    MatchedMessage found;
    int flag = 0;
    MPI_Status status;
    found.error = PMPI_Improbe(pattern.source, pattern.tag, pattern.comm->handle(), &flag, &found.message, &status);
    if (found.error == MPI_SUCCESS && flag == 0) return false;
    if (found.error == MPI_SUCCESS) {
        found.source = status.MPI_SOURCE;
        found.tag = status.MPI_TAG;
        PMPI_Get_count(&status, MPI_BYTE, &found.bytes);
    }
    // MPI's rule: of all receives that accept the message, the one posted first gets it.
    const auto first = std::find_if(pending_.begin(), pending_.end(), [&](const PendingMatch *p) {
        if (p->comm != pattern.comm) return false;
        return found.error == MPI_SUCCESS ? p->accepts(found.source, found.tag)
                                          : p->source == pattern.source && p->tag == pattern.tag;
    });
    PendingMatch &pending = **first;
    pending.message = found;
    pending.done = true;
    finish(first);
    return true;
}

}  // namespace cldist
