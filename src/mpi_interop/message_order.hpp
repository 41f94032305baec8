#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "events/operation.hpp"
#include "mpi_interop/communicator.hpp"

namespace cldist {

/// A message that MPI has matched with a receive, or that a probe saw.
struct MatchedMessage {
    MPI_Message message = MPI_MESSAGE_NULL;
    int source = MPI_PROC_NULL;
    int tag = 0;
    std::size_t bytes = 0;
    int error = MPI_SUCCESS;
    std::vector<std::byte> content;  ///< if it was received already; `message` is null then
};

/// Which messages a receive takes.
struct MessagePattern {
    std::shared_ptr<const Communicator> comm;
    int source;  ///< or MPI_ANY_SOURCE
    int tag;     ///< or MPI_ANY_TAG

    [[nodiscard]] bool accepts(int from, int with_tag) const {
        return (source == MPI_ANY_SOURCE || source == from) && (tag == MPI_ANY_TAG || tag == with_tag);
    }
};

/// How messages are found; the unit tests have their own.
class Probing {
public:
    Probing() = default;
    Probing(const Probing &) = delete;
    Probing &operator=(const Probing &) = delete;
    virtual ~Probing() = default;

    /// As MPI_Iprobe: nothing, or a message that stays where it is. An error counts as a message.
    virtual std::optional<MatchedMessage> look(const Communicator &comm, int source, int tag) = 0;
    /// As MPI_Improbe.
    virtual std::optional<MatchedMessage> take(const Communicator &comm, int source, int tag) = 0;
    /// As receive_content().
    virtual void receive(MatchedMessage &message) = 0;
};

/// The receives that one thread looks after: how many of each communicator, source and tag. Guarded by the order of messages.
class Watches {
public:
    Watches() = default;
    Watches(const Watches &) = delete;
    Watches &operator=(const Watches &) = delete;

private:
    friend class MessageOrder;
    using Sender = std::pair<const Communicator *, int>;
    using Tags = std::map<int, std::size_t>;

    std::map<Sender, Tags> senders_;
    std::atomic<bool> empty_{true};
};

/// A receive that waits for its message.
struct PendingMatch {
    MessagePattern pattern;
    MatchedMessage message;         ///< once done
    std::atomic<bool> done{false};  ///< may be set by a thread that looked for another receive's message

private:
    friend class MessageOrder;
    Watches *watches_ = nullptr;  ///< while it is pending
    std::uint64_t number_ = 0;    ///< in the order of the announcements
    std::list<PendingMatch *>::iterator place_;
    Waker waker_;  ///< called when done, if not empty
};

/// A send that has yet to post its message: where to, and which one it is.
struct SendTurn {
    const Communicator *comm;
    int dest;
    int tag;
    const void *sender;
};

/// The order of messages in the process, whichever threads drive them: receives get messages in the order in which they
/// were announced, and sends with equal communicator, destination and tag post theirs in the order of their turns.
/// Thread-safe.
///
/// Receives are matched by probing instead of being posted: so a message of any length or kind can be met without
/// raising an error on the user's communicator, a pending receive holds no memory, and it can be given up.
class MessageOrder {
public:
    explicit MessageOrder(Probing &probing) : probing_(probing) {}

    /// Looks for a message from now on, behind all receives announced before, whenever somebody probes `watches`.
    void announce(PendingMatch &pending, Watches &watches);
    /// What to call once the receive is done; not if it is by now.
    void wake_by(PendingMatch &pending, const Waker &waker);
    /// Gives up a receive that may not be done.
    void forget(PendingMatch &pending);
    /// Whether a message was found, for whomever.
    bool probe(Watches &watches);

    /// Whether no receive is pending and nothing is put back: then look() and take() do what MPI_Iprobe and MPI_Improbe do.
    [[nodiscard]] bool quiet() const { return not_quiet_ == 0; }
    /// The message that a receive of this pattern would get if it were announced now; it stays where it is.
    std::optional<MatchedMessage> look(const MessagePattern &pattern);
    /// The same, taken.
    std::optional<MatchedMessage> take(const MessagePattern &pattern);
    /// The same, received if it has that many bytes, and put back for the next receive that accepts it. Throws an Error.
    std::optional<MatchedMessage> read(const MessagePattern &pattern, std::size_t bytes);

    void take_turn(const SendTurn &turn);
    /// Whether no turn taken before is in the way: of a sender that took one, or of one that did not.
    [[nodiscard]] bool may_post(const SendTurn &turn) const;
    void leave_turn(const SendTurn &turn);

private:
    using Receives = std::map<std::pair<int, int>, std::list<PendingMatch *>>;  ///< by source and tag
    struct PutBack {
        std::shared_ptr<const Communicator> comm;
        MatchedMessage message;
    };
    enum class Found { nothing, given, for_nobody };

    bool probe(Watches &watches, const Watches::Sender &sender);
    Found give_next(const Communicator &comm, int source, int tag, std::optional<MatchedMessage> &seen);
    bool give_oldest(const Communicator &comm, const MatchedMessage &seen);
    [[nodiscard]] PendingMatch *first_that_accepts(const Communicator &comm, int source, int tag) const;
    enum class Then { leave, take };
    std::optional<MatchedMessage> find_put_back(const MessagePattern &pattern, Then then);
    std::optional<MatchedMessage> take_locked(const MessagePattern &pattern);
    void remove(PendingMatch &pending);
    void give(PendingMatch &pending, MatchedMessage message);

    Probing &probing_;
    mutable std::mutex mutex_;
    std::map<const Communicator *, Receives> pending_;
    std::uint64_t announced_ = 0;
    std::list<PutBack> put_back_;  ///< accepted by none of the pending
    std::atomic<std::size_t> not_quiet_ = 0;
    using SendKey = std::tuple<const Communicator *, int, int>;
    std::map<SendKey, std::list<const void *>> turns_;
    std::atomic<std::size_t> turns_taken_ = 0;
};

/// As MPI_Mrecv, to `content`. Throws an Error.
void receive_content(MatchedMessage &message);

/// The one of the process.
MessageOrder &message_order();

}  // namespace cldist
