#include "mpi_interop/message_order.hpp"

#include <algorithm>

#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/ordered_command.hpp"
#include "mpi_interop/own_yields.hpp"
#include "mpi_interop/probed_messages.hpp"

namespace cldist {
namespace {

class MpiProbing final : public Probing {
public:
    std::optional<MatchedMessage> peek(const Communicator &comm, int source, int tag) override {
        MatchedMessage seen;
        int flag = 0;
        MPI_Status status;
        const OwnYields own_yields;
        seen.error = PMPI_Iprobe(source, tag, comm.handle(), &flag, &status);
        return told(std::move(seen), flag, status);
    }
    std::optional<MatchedMessage> take(const Communicator &comm, int source, int tag) override {
        MatchedMessage found;
        int flag = 0;
        MPI_Status status;
        const OwnYields own_yields;
        found.error = PMPI_Improbe(source, tag, comm.handle(), &flag, &found.message, &status);
        auto taken = told(std::move(found), flag, status);
        if (taken && taken->error == MPI_SUCCESS) note_taken(comm, *taken);
        return taken;
    }
    void receive(MatchedMessage &message) override { receive_content(message); }

private:
    // The program may have a status of this message from an earlier probe.
    static void note_taken(const Communicator &comm, MatchedMessage &message) {
        try {
            probed_messages().note_taken(comm, message);
        } catch (const Error &error) {
            message.error = error.status().mpi_error;
        }
    }
    static std::optional<MatchedMessage> told(MatchedMessage message, int flag,
                                              const MPI_Status &status) {
        if (message.error != MPI_SUCCESS) return message;
        if (flag == 0) return std::nullopt;
        message.source = status.MPI_SOURCE;
        message.tag = status.MPI_TAG;
        message.bytes = bytes_of(status);
        return message;
    }
};

}  // namespace

void MessageOrder::announce(PendingMatch &pending, Watches &watches) {
    const std::lock_guard lock(mutex_);
    if (auto before = find_put_back(pending.pattern, Then::take)) {
        pending.message = std::move(*before);
        pending.done = true;
        return;
    }
    const auto &[comm, source, tag] = pending.pattern;
    std::list<PendingMatch *> &like_it = pending_[comm.get()][{source, tag}];
    pending.place_ = like_it.insert(like_it.end(), &pending);
    pending.number_ = announced_++;
    pending.watches_ = &watches;
    ++watches.senders_[{comm.get(), source}][tag];
    watches.empty_ = false;
    ++not_quiet_;
}

void MessageOrder::wake_by(PendingMatch &pending, const Waker &waker) {
    const std::lock_guard lock(mutex_);
    if (!pending.done) pending.waker_ = waker;
}

void MessageOrder::forget(PendingMatch &pending) {
    const std::lock_guard lock(mutex_);
    if (pending.watches_ != nullptr) remove(pending);
}

void MessageOrder::remove(PendingMatch &pending) {
    const auto &[comm, source, tag] = pending.pattern;
    Watches &watches = *std::exchange(pending.watches_, nullptr);
    const auto sender = watches.senders_.find({comm.get(), source});
    const auto count = sender->second.find(tag);
    if (--count->second == 0) sender->second.erase(count);
    if (sender->second.empty()) watches.senders_.erase(sender);
    watches.empty_ = watches.senders_.empty();

    const auto of_comm = pending_.find(comm.get());
    const auto like_it = of_comm->second.find({source, tag});
    like_it->second.erase(pending.place_);
    if (like_it->second.empty()) of_comm->second.erase(like_it);
    if (of_comm->second.empty()) pending_.erase(of_comm);
    --not_quiet_;
}

void MessageOrder::give(PendingMatch &pending, MatchedMessage message) {
    remove(pending);
    pending.message = std::move(message);
    const Waker waker = std::move(pending.waker_);
    // From here on `pending` may be destroyed.
    pending.done.store(true, std::memory_order_release);
    if (waker) waker();
}

// MPI's rule: of all receives that accept a message, the first posted receive gets it. Returns null
// if no receive accepts it.
PendingMatch *MessageOrder::first_that_accepts(const Communicator &comm, int source,
                                               int tag) const {
    const auto of_comm = pending_.find(&comm);
    if (of_comm == pending_.end()) return nullptr;
    PendingMatch *first = nullptr;
    for (const int from : {source, MPI_ANY_SOURCE}) {
        for (const int with_tag : {tag, MPI_ANY_TAG}) {
            const auto receives = of_comm->second.find({from, with_tag});
            if (receives == of_comm->second.end()) continue;
            PendingMatch *const candidate = receives->second.front();
            if (first == nullptr || candidate->number_ < first->number_) first = candidate;
        }
    }
    return first;
}

// MPI's other rule: a receive gets the oldest message of a sender that it accepts. `seen` need not
// be the oldest. A probe with one tag does not see older messages with other tags, which may have
// arrived after an earlier probe of all tags. Therefore the first receive that accepts `seen` takes
// a message with its own tag. It takes only from the sender of `seen`, because a message of another
// sender may be for an earlier receive. Returns false if the message does not exist any more,
// because the program's MPI calls receive messages, too.
bool MessageOrder::give_oldest(const Communicator &comm, const MatchedMessage &seen) {
    const PendingMatch &first = *first_that_accepts(comm, seen.source, seen.tag);
    std::optional<MatchedMessage> found = probing_.take(comm, seen.source, first.pattern.tag);
    if (!found) return false;
    if (found->error != MPI_SUCCESS) found->source = seen.source, found->tag = seen.tag;
    // With any tag it may be an older message, for an earlier receive that does not accept `seen`.
    PendingMatch &taker = *first_that_accepts(comm, found->source, found->tag);
    give(taker, std::move(*found));
    return true;
}

// Gives the next message that a probe finds to its receive. If no receive accepts the message, or
// if the probe failed, sets `seen`.
MessageOrder::Found MessageOrder::give_next(const Communicator &comm, int source, int tag,
                                            std::optional<MatchedMessage> &seen) {
    seen = probing_.peek(comm, source, tag);
    if (!seen) return Found::nothing;
    if (seen->error != MPI_SUCCESS || first_that_accepts(comm, seen->source, seen->tag) == nullptr)
        return Found::for_nobody;
    const bool given = give_oldest(comm, *seen);
    seen.reset();
    return given ? Found::given : Found::nothing;
}

bool MessageOrder::probe(Watches &watches) {
    if (watches.empty_) return false;
    const std::lock_guard lock(mutex_);
    bool found = false;
    for (auto at = watches.senders_.begin(); at != watches.senders_.end();) {
        const Watches::Sender sender = at->first;
        found |= probe(watches, sender);
        at = watches.senders_.upper_bound(sender);
    }
    return found;
}

// Receives with different tags share a probe of all tags. If no receive accepts the message that it
// finds, this message hides later ones, and each tag is probed.
bool MessageOrder::probe(Watches &watches, const Watches::Sender &sender) {
    const auto &[comm, source] = sender;
    bool found = false;
    std::optional<MatchedMessage> seen;
    // Looked up each time, because a receive that got its message is removed.
    const auto tags = [&]() -> const Watches::Tags & {
        static const Watches::Tags none;
        const auto at = watches.senders_.find(sender);
        return at == watches.senders_.end() ? none : at->second;
    };
    while (tags().size() > 1) {
        const Found next = give_next(*comm, source, MPI_ANY_TAG, seen);
        if (next == Found::nothing) return found;
        if (next == Found::for_nobody) break;
        found = true;
    }
    for (auto at = tags().begin(); at != tags().end();) {
        const int tag = at->first;
        while (tags().count(tag) != 0) {
            const Found next = give_next(*comm, source, tag, seen);
            if (next == Found::nothing) break;
            // This is an error, because a receive accepts every message with this tag.
            if (next == Found::for_nobody)
                give(*pending_.at(comm).at({source, tag}).front(), std::move(*seen));
            found = true;
        }
        at = tags().upper_bound(tag);
    }
    return found;
}

std::optional<MatchedMessage> MessageOrder::peek(const MessagePattern &pattern) {
    const std::lock_guard lock(mutex_);
    if (auto before = find_put_back(pattern, Then::leave)) return before;
    std::optional<MatchedMessage> seen;
    while (give_next(*pattern.comm, pattern.source, pattern.tag, seen) == Found::given) continue;
    return seen;
}

std::optional<MatchedMessage> MessageOrder::take(const MessagePattern &pattern) {
    const std::lock_guard lock(mutex_);
    return take_locked(pattern);
}

std::optional<MatchedMessage> MessageOrder::take_locked(const MessagePattern &pattern) {
    if (auto before = find_put_back(pattern, Then::take)) return before;
    const Communicator &comm = *pattern.comm;
    if (pending_.find(&comm) == pending_.end())
        return probing_.take(comm, pattern.source, pattern.tag);
    std::optional<MatchedMessage> seen;
    while (give_next(comm, pattern.source, pattern.tag, seen) == Found::given) continue;
    if (!seen || seen->error != MPI_SUCCESS) return seen;
    return probing_.take(comm, seen->source, seen->tag);
}

std::optional<MatchedMessage> MessageOrder::read(const MessagePattern &pattern, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::optional<MatchedMessage> message = take_locked(pattern);
    if (!message || message->error != MPI_SUCCESS) return message;
    if (message->content.empty() && message->bytes == bytes) probing_.receive(*message);
    put_back_.push_back({pattern.comm, *message});
    ++not_quiet_;
    return message;
}

// Searches the messages that were put back. They precede all messages that MPI still has.
std::optional<MatchedMessage> MessageOrder::find_put_back(const MessagePattern &pattern,
                                                          Then then) {
    const auto at = std::find_if(put_back_.begin(), put_back_.end(), [&](const PutBack &p) {
        return p.comm == pattern.comm && pattern.accepts(p.message.source, p.message.tag);
    });
    if (at == put_back_.end()) return std::nullopt;
    if (then == Then::leave) return at->message;
    MatchedMessage message = std::move(at->message);
    put_back_.erase(at);
    --not_quiet_;
    return message;
}

void MessageOrder::take_turn(const SendTurn &turn) {
    const std::lock_guard lock(mutex_);
    turns_[{turn.comm, turn.dest}].push_back(turn);
    ++turns_taken_;
}

bool MessageOrder::may_post(const SendTurn &turn) const {
    if (turns_taken_ == 0) return true;
    const std::lock_guard lock(mutex_);
    const auto turns = turns_.find({turn.comm, turn.dest});
    if (turns == turns_.end()) return true;
    for (const SendTurn &other : turns->second) {
        if (other.sender == turn.sender) return true;
        if (other.ordered == nullptr || other.ordered->may_post()) return false;
    }
    return true;
}

void MessageOrder::leave_turn(const SendTurn &turn) {
    const std::lock_guard lock(mutex_);
    const auto turns = turns_.find({turn.comm, turn.dest});
    // A sender that has posted is usually first. A failed sender may be at any position.
    turns->second.erase(
        std::find_if(turns->second.begin(), turns->second.end(),
                     [&](const SendTurn &each) { return each.sender == turn.sender; }));
    if (turns->second.empty()) turns_.erase(turns);
    --turns_taken_;
}

void receive_content(MatchedMessage &message) {
    message.content.resize(message.bytes);
    check_mpi(PMPI_Mrecv(message.content.data(), static_cast<int>(message.bytes), MPI_BYTE,
                         &message.message, MPI_STATUS_IGNORE),
              "MPI_Mrecv");
}

MessageOrder &message_order() {
    // Never destroyed, because commands may be pending at exit.
    static auto &instance = *new MessageOrder(*new MpiProbing);
    return instance;
}

}  // namespace cldist
