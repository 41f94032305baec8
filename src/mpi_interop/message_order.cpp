#include "mpi_interop/message_order.hpp"

#include <algorithm>

namespace cldist {

bool probe(const MessagePattern &pattern, MatchedMessage &found) {
    int flag = 0;
    MPI_Status status;
    found.error = PMPI_Improbe(pattern.source, pattern.tag, pattern.comm->handle(), &flag, &found.message, &status);
    if (found.error != MPI_SUCCESS) return true;
    if (flag == 0) return false;
    found.source = status.MPI_SOURCE;
    found.tag = status.MPI_TAG;
    PMPI_Get_count(&status, MPI_BYTE, &found.bytes);
    return true;
}

void MessageOrder::announce(PendingMatch &pending, Watches &watches) {
    const std::lock_guard lock(mutex_);
    auto at =
        std::find_if(watches.begin(), watches.end(), [&](const Watch &w) { return w.pattern == pending.pattern; });
    if (at == watches.end()) at = watches.insert(at, {pending.pattern, 0});
    ++at->count;
    pending.watch = &*at;
    pending_.push_back(&pending);
}

void MessageOrder::forget(PendingMatch &pending) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find(pending_.begin(), pending_.end(), &pending);
    if (at != pending_.end()) finish(at);
}

void MessageOrder::finish(std::list<PendingMatch *>::iterator at) {
    --(*at)->watch->count;
    pending_.erase(at);
}

bool MessageOrder::probe(Watches &watches) {
    const std::lock_guard lock(mutex_);
    bool found = false;
    for (const Watch &watch : watches)
        while (watch.count != 0 && serve(watch)) found = true;
    std::erase_if(watches, [](const Watch &w) { return w.count == 0; });
    return found;
}

bool MessageOrder::serve(const Watch &watch) {
    const MessagePattern &pattern = watch.pattern;
    MatchedMessage found;
    if (!cldist::probe(pattern, found)) return false;
    // MPI's rule: of all receives that accept the message, the one posted first gets it.
    const auto first = std::find_if(pending_.begin(), pending_.end(), [&](const PendingMatch *p) {
        if (p->pattern.comm != pattern.comm) return false;
        return found.error == MPI_SUCCESS ? p->pattern.accepts(found.source, found.tag) : p->watch == &watch;
    });
    PendingMatch &pending = **first;
    finish(first);
    pending.message = found;
    // From here on it may be gone.
    pending.done.store(true, std::memory_order_release);
    return true;
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
