#include "mpi_interop/message_order.hpp"

#include <algorithm>
#include <utility>

#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

// What MPI_Improbe finds; an error counts as found.
std::optional<MatchedMessage> improbe(const MessagePattern &pattern) {
    MatchedMessage found;
    int flag = 0;
    MPI_Status status;
    found.error = PMPI_Improbe(pattern.source, pattern.tag, pattern.comm->handle(), &flag, &found.message, &status);
    if (found.error != MPI_SUCCESS) return found;
    if (flag == 0) return std::nullopt;
    found.source = status.MPI_SOURCE;
    found.tag = status.MPI_TAG;
    found.bytes = bytes_of(status);
    return found;
}

}  // namespace

void MessageOrder::announce(PendingMatch &pending, Watches &watches) {
    const std::lock_guard lock(mutex_);
    if (const auto before = put_back_for(pending.pattern); before != put_back_.end()) {
        pending.message = std::move(before->message);
        put_back_.erase(before);
        --not_quiet_;
        pending.done = true;
        return;
    }
    auto at =
        std::find_if(watches.begin(), watches.end(), [&](const Watch &w) { return w.pattern == pending.pattern; });
    if (at == watches.end()) at = watches.insert(at, {pending.pattern, 0});
    ++at->count;
    pending.watch = &*at;
    pending_.push_back(&pending);
    ++not_quiet_;
}

void MessageOrder::forget(PendingMatch &pending) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find(pending_.begin(), pending_.end(), &pending);
    if (at != pending_.end()) remove(at);
}

void MessageOrder::remove(Pending at) {
    --(*at)->watch->count;
    pending_.erase(at);
    --not_quiet_;
}

void MessageOrder::give(Pending at, MatchedMessage message) {
    PendingMatch &pending = **at;
    remove(at);
    pending.message = std::move(message);
    // From here on it may be gone.
    pending.done.store(true, std::memory_order_release);
}

bool MessageOrder::probe(Watches &watches) {
    const std::lock_guard lock(mutex_);
    bool found = false;
    for (const Watch &watch : watches)
        while (watch.count != 0 && probe(watch)) found = true;
    std::erase_if(watches, [](const Watch &w) { return w.count == 0; });
    return found;
}

bool MessageOrder::probe(const Watch &watch) {
    std::optional<MatchedMessage> found = improbe(watch.pattern);
    if (!found) return false;
    const auto first =
        found->error == MPI_SUCCESS
            ? first_that_accepts(watch.pattern.comm.get(), found->source, found->tag)
            : std::find_if(pending_.begin(), pending_.end(), [&](const PendingMatch *p) { return p->watch == &watch; });
    give(first, std::move(*found));
    return true;
}

// MPI's rule: of all receives that accept a message, the one posted first gets it.
MessageOrder::Pending MessageOrder::first_that_accepts(const Communicator *comm, int source, int tag) {
    return std::find_if(pending_.begin(), pending_.end(), [&](const PendingMatch *p) {
        return p->pattern.comm.get() == comm && p->pattern.accepts(source, tag);
    });
}

std::list<MessageOrder::PutBack>::iterator MessageOrder::put_back_for(const MessagePattern &pattern) {
    return std::find_if(put_back_.begin(), put_back_.end(), [&](const PutBack &p) {
        return p.comm == pattern.comm && pattern.accepts(p.message.source, p.message.tag);
    });
}

std::optional<MatchedMessage> MessageOrder::look(const MessagePattern &pattern) {
    const std::lock_guard lock(mutex_);
    if (const auto before = put_back_for(pattern); before != put_back_.end()) return before->message;
    for (;;) {
        MatchedMessage seen;
        int flag = 0;
        MPI_Status status;
        seen.error = PMPI_Iprobe(pattern.source, pattern.tag, pattern.comm->handle(), &flag, &status);
        if (seen.error == MPI_SUCCESS) {
            if (flag == 0) return std::nullopt;
            seen.source = status.MPI_SOURCE;
            seen.tag = status.MPI_TAG;
            seen.bytes = bytes_of(status);
        }
        const Pending first = first_that_accepts(pattern.comm.get(), seen.source, seen.tag);
        if (seen.error != MPI_SUCCESS || first == pending_.end()) return seen;
        // It is that receive's, which merely has not been asked since it came.
        if (auto found = improbe({pattern.comm, seen.source, seen.tag})) give(first, std::move(*found));
    }
}

std::optional<MatchedMessage> MessageOrder::take(const MessagePattern &pattern) {
    const std::lock_guard lock(mutex_);
    if (const auto before = put_back_for(pattern); before != put_back_.end()) {
        MatchedMessage message = std::move(before->message);
        put_back_.erase(before);
        --not_quiet_;
        return message;
    }
    for (;;) {
        std::optional<MatchedMessage> found = improbe(pattern);
        if (!found || found->error != MPI_SUCCESS) return found;
        const Pending first = first_that_accepts(pattern.comm.get(), found->source, found->tag);
        if (first == pending_.end()) return found;
        give(first, std::move(*found));
    }
}

void MessageOrder::put_back(std::shared_ptr<const Communicator> comm, MatchedMessage message) {
    const std::lock_guard lock(mutex_);
    const Pending first = first_that_accepts(comm.get(), message.source, message.tag);
    if (first != pending_.end()) {
        give(first, std::move(message));
        return;
    }
    put_back_.push_back({std::move(comm), std::move(message)});
    ++not_quiet_;
}

void MessageOrder::take_turn(const SendTurn &turn) {
    const std::lock_guard lock(mutex_);
    turns_[{turn.comm, turn.dest, turn.tag}].push_back(turn.sender);
    ++turns_taken_;
}

bool MessageOrder::may_post(const SendTurn &turn) const {
    if (turns_taken_ == 0) return true;
    const std::lock_guard lock(mutex_);
    const auto senders = turns_.find({turn.comm, turn.dest, turn.tag});
    return senders == turns_.end() || senders->second.front() == turn.sender;
}

void MessageOrder::leave_turn(const SendTurn &turn) {
    const std::lock_guard lock(mutex_);
    const auto senders = turns_.find({turn.comm, turn.dest, turn.tag});
    turns_taken_ -= std::erase(senders->second, turn.sender);
    if (senders->second.empty()) turns_.erase(senders);
}

MessageOrder &message_order() {
    // Never destroyed: commands may be pending at exit.
    static auto &instance = *new MessageOrder;
    return instance;
}

}  // namespace cldist
