#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "events/operation.hpp"
#include "mpi_interop/communicator.hpp"

namespace cldist {

class OrderedCommand;

/// A message that MPI has matched with a receive, or that a probe found.
struct MatchedMessage {
    MPI_Message message = MPI_MESSAGE_NULL;
    int source = MPI_PROC_NULL;
    int tag = 0;
    std::size_t bytes = 0;
    int error = MPI_SUCCESS;
    std::vector<std::byte> content;  ///< if it was already received; `message` is then null
};

/// The messages that a receive accepts.
struct MessagePattern {
    std::shared_ptr<const Communicator> comm;
    int source;  ///< or MPI_ANY_SOURCE
    int tag;     ///< or MPI_ANY_TAG

    [[nodiscard]] bool accepts(int from, int with_tag) const {
        return (source == MPI_ANY_SOURCE || source == from) &&
               (tag == MPI_ANY_TAG || tag == with_tag);
    }
};

/// The interface to MPI's probes. Unit tests replace it.
class Probing {
public:
    Probing() = default;
    Probing(const Probing &) = delete;
    Probing &operator=(const Probing &) = delete;
    virtual ~Probing() = default;

    /// Like MPI_Iprobe: returns the message without removing it, or nothing. An error is returned
    /// as a message with `error` set.
    virtual std::optional<MatchedMessage> peek(const Communicator &comm, int source, int tag) = 0;
    /// Like MPI_Improbe.
    virtual std::optional<MatchedMessage> take(const Communicator &comm, int source, int tag) = 0;
    /// Like receive_content().
    virtual void receive(MatchedMessage &message) = 0;
};

/// The receives that one thread probes for, counted by communicator, source and tag. Guarded by the
/// mutex of the message order.
class Watches {
    friend class MessageOrder;
    using Sender = std::pair<const Communicator *, int>;
    using Tags = std::map<int, std::size_t>;

    std::map<Sender, Tags> senders_;
    std::atomic<bool> empty_{true};
};

/// A receive that waits for its message.
struct PendingMatch {
    MessagePattern pattern;
    MatchedMessage message;         ///< valid once done
    std::atomic<bool> done{false};  ///< set by any thread that probes

private:
    friend class MessageOrder;
    Watches *watches_ = nullptr;  ///< set while it is pending
    std::uint64_t number_ = 0;    ///< position among all announcements
    std::list<PendingMatch *>::iterator place_;
    Waker waker_;  ///< called when done, if not empty
};

/// A send that has not posted its message yet. `sender` identifies it.
struct SendTurn {
    const Communicator *comm;
    int dest;
    const void *sender;
    /// If the send is device-ordered. Others do not wait for it before its may_post() is true.
    const OrderedCommand *ordered = nullptr;
};

/// Orders the messages of all threads of the process. Receives get messages in the order in which
/// they were announced. As in MPI, sends with equal communicator and destination post their
/// messages in the order of their turns, whatever their tags. Thread-safe.
///
/// Receives are matched by probing instead of being posted. A message of any length or kind
/// therefore raises no error on the user's communicator. A pending receive holds no memory and can
/// be abandoned.
class MessageOrder {
public:
    explicit MessageOrder(Probing &probing) : probing_(probing) {}

    /// Registers a receive, for which probe(watches) looks for a message. Earlier announced
    /// receives come first.
    void announce(PendingMatch &pending, Watches &watches);
    /// Sets the function to call when the receive is done. No effect if it is already done.
    void wake_by(PendingMatch &pending, const Waker &waker);
    /// Abandons a receive unless it is done.
    void forget(PendingMatch &pending);
    /// Gives arrived messages to the receives that accept them. Returns true if one got a message.
    bool probe(Watches &watches);

    /// Returns true if no receive is pending and no message was put back. Then peek() and take()
    /// equal MPI_Iprobe and MPI_Improbe.
    [[nodiscard]] bool quiet() const { return not_quiet_ == 0; }
    /// Returns the message that a receive with this pattern would get if it were announced now. The
    /// message is not removed.
    std::optional<MatchedMessage> peek(const MessagePattern &pattern);
    /// The same, but removes the message.
    std::optional<MatchedMessage> take(const MessagePattern &pattern);
    /// Takes the message, receives it if it has `bytes` bytes, and puts it back for the next
    /// receive that accepts it. Throws an Error.
    std::optional<MatchedMessage> read(const MessagePattern &pattern, std::size_t bytes);

    void take_turn(const SendTurn &turn);
    /// Returns true if no earlier send blocks this send, which need not have a turn.
    [[nodiscard]] bool may_post(const SendTurn &turn) const;
    void leave_turn(const SendTurn &turn);

private:
    /// By source and tag.
    using Receives = std::map<std::pair<int, int>, std::list<PendingMatch *>>;
    struct PutBack {
        std::shared_ptr<const Communicator> comm;
        MatchedMessage message;
    };
    enum class Found { nothing, given, for_nobody };

    bool probe(Watches &watches, const Watches::Sender &sender);
    Found give_next(const Communicator &comm, int source, int tag,
                    std::optional<MatchedMessage> &seen);
    bool give_oldest(const Communicator &comm, const MatchedMessage &seen);
    [[nodiscard]] PendingMatch *first_that_accepts(const Communicator &comm, int source,
                                                   int tag) const;
    enum class Then { leave, take };
    std::optional<MatchedMessage> find_put_back(const MessagePattern &pattern, Then then);
    std::optional<MatchedMessage> take_locked(const MessagePattern &pattern);
    void remove(PendingMatch &pending);
    void give(PendingMatch &pending, MatchedMessage message);

    Probing &probing_;
    mutable std::mutex mutex_;
    std::map<const Communicator *, Receives> pending_;
    std::uint64_t announced_ = 0;
    std::list<PutBack> put_back_;  ///< no pending receive accepts them
    std::atomic<std::size_t> not_quiet_ = 0;
    /// By communicator and destination, in order.
    std::map<std::pair<const Communicator *, int>, std::list<SendTurn>> turns_;
    std::atomic<std::size_t> turns_taken_ = 0;
};

/// Like MPI_Mrecv, into `content`. Throws an Error.
void receive_content(MatchedMessage &message);

/// The process's message order.
MessageOrder &message_order();

}  // namespace cldist
