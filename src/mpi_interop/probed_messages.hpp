#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "mpi_interop/message_order.hpp"

namespace cldist {

/// What lies behind a message handle that the library gave out in place of MPI's own: a message that was received
/// already, because its size stands inside it. The handle's message has the same bytes, sent by the process to itself.
struct SubstitutedMessage {
    MPI_Comm comm;  ///< that of the original
    int source;
    int tag;
    std::vector<std::byte> content;
    MPI_Request sent = MPI_REQUEST_NULL;  ///< to be waited for once the substitute was received
};

/// What MPI_Probe and its relatives told the program, so that MPI_Get_count can tell the payload. The status of a probe has
/// the bytes on the wire, envelope included; and a payload in blocks can't be told without taking the envelope off the
/// wire. So the library marks such statuses, in bits of the count above the length of any message. A status without a
/// mark has the payload's bytes.
class ProbedMessages {
public:
    /// `status` is of a message that a probe on `comm` found, whose payload is that of the content, if it is known.
    void mark(MPI_Comm comm, MPI_Status &status, const std::vector<std::byte> &content = {});
    /// The status as MPI wrote it; nothing if it has no mark.
    [[nodiscard]] std::optional<MPI_Status> without_mark(const MPI_Status &status) const;
    /// The payload's bytes, or MPI_UNDEFINED if it is a probe's status of a message that no command or call with
    /// MPI_CL_MEM can have sent, or of one before the last 64. Throws an Error.
    MPI_Count payload_of(const MPI_Status &status);
    /// `message` was taken off the wire. If a status of it has a mark and its size is in it alone, it is received, so that
    /// the size stays known. Throws an Error.
    void note_taken(const Communicator &comm, MatchedMessage &message);
    /// Whether note_taken() may have something to do.
    [[nodiscard]] bool any_to_note() const { return open_ != 0; }

    /// Makes substitutes possible, until end(). Throws an Error.
    void begin();
    void end();
    /// Whether a message of that many bytes that MPI_Mprobe took is to be substituted.
    [[nodiscard]] bool to_substitute(std::size_t bytes) const;
    /// MPI gave `handle` out, for a message without (`plain`) or with an envelope.
    void note_handle(MPI_Message handle, bool plain);
    /// Whether there is no envelope in the message of `handle`, which is about to be received.
    bool take_plain(MPI_Message handle);
    /// Receives `message`, unless it has its content, and gives a handle in its place. Throws an Error.
    MPI_Message substitute(MPI_Comm comm, MatchedMessage &message);
    [[nodiscard]] bool is_substituted(MPI_Message handle);
    /// If `handle` is one of substitute(): what it stands for, which is the caller's now.
    std::optional<SubstitutedMessage> take_substituted(MPI_Message handle);

private:
    /// A message that probes found.
    struct Probed {
        MPI_Comm comm;
        int source;
        int tag;
        MPI_Count bytes;
        std::optional<MPI_Count> payload;  ///< if it was asked for or received
        std::uint64_t mark;

        /// Whether its size is in the message alone, which is still on the wire, as far as is known.
        [[nodiscard]] bool open() const;
    };

    using List = std::list<Probed>;
    List::iterator find_like(const Probed &wanted, bool open);
    List::iterator find(std::uint64_t mark);
    std::optional<Probed> known(std::uint64_t mark);

    std::mutex mutex_;
    List probed_;              ///< the last found first
    std::uint64_t marks_ = 0;  ///< how many have been given
    std::atomic<std::size_t> open_ = 0;
    std::atomic<bool> any_ = false;

    MPI_Comm self_ = MPI_COMM_NULL;  ///< of substitutes
    std::map<MPI_Message, SubstitutedMessage> substituted_;
    std::atomic<std::size_t> substituted_count_ = 0;
    std::set<MPI_Message> plain_;  ///< handles of messages without envelopes
    std::atomic<std::size_t> plain_count_ = 0;
};

/// The one of the process.
ProbedMessages &probed_messages();

}  // namespace cldist
