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

/// A message for which the library returned a substitute handle. The library has received the
/// message, because only its content contains its size. The handle belongs to a message with the
/// same bytes, which the process has sent to itself.
struct SubstitutedMessage {
    MPI_Comm comm;  ///< communicator of the original message
    int source;
    int tag;
    std::vector<std::byte> content;
    MPI_Request sent = MPI_REQUEST_NULL;  ///< complete it after the substitute was received
};

/// The statuses that MPI_Probe and similar calls returned, so that MPI_Get_count can report the
/// payload's size. The status of a probe counts the bytes of the MPI message, including the header.
/// The payload of a message in blocks is known only after its header was received. Therefore the
/// library marks such statuses in count bits above the length of any message. A status without mark
/// counts the payload.
class ProbedMessages {
public:
    /// Marks `status` of a probe on `comm`. If `content` is not empty, it has the payload's size.
    void mark(MPI_Comm comm, MPI_Status &status, const std::vector<std::byte> &content = {});
    /// Returns the status that MPI wrote. Returns nothing if there is no mark.
    [[nodiscard]] std::optional<MPI_Status> without_mark(const MPI_Status &status) const;
    /// Returns the size of the payload. Returns MPI_UNDEFINED if no command or call with MPI_CL_MEM
    /// can have sent the message, or if 64 messages were probed since. Throws an Error.
    MPI_Count payload_of(const MPI_Status &status);
    /// Call it for each matched message. If the message has a marked status and its size is still
    /// unknown, receives it to keep its size. Throws an Error.
    void note_taken(const Communicator &comm, MatchedMessage &message);
    /// Returns true if note_taken() may have an effect.
    [[nodiscard]] bool any_to_note() const { return open_ != 0; }

    /// Enables substitutes until end(). Throws an Error.
    void begin();
    void end();
    /// Returns true if a message of `bytes` bytes from MPI_Mprobe needs a substitute.
    [[nodiscard]] bool to_substitute(std::size_t bytes) const;
    /// Call it after MPI has returned `handle` for a message, which has no header if `plain`.
    void note_handle(MPI_Message handle, bool plain);
    /// Returns true if the message of `handle`, which is about to be received, has no header.
    bool take_plain(MPI_Message handle);
    /// Receives `message`, unless it was received, and returns a substitute handle. Throws an
    /// Error.
    MPI_Message substitute(MPI_Comm comm, MatchedMessage &message);
    [[nodiscard]] bool is_substituted(MPI_Message handle);
    /// If `handle` is a substitute, returns its original message and forgets it.
    std::optional<SubstitutedMessage> take_substituted(MPI_Message handle);

private:
    /// A message that a probe found.
    struct Probed {
        MPI_Comm comm;
        int source;
        int tag;
        MPI_Count bytes;
        std::optional<MPI_Count> payload;  ///< if it was requested or received
        std::uint64_t mark;

        /// Returns true if the payload's size is unknown, because the header that contains it has
        /// not been received.
        [[nodiscard]] bool open() const;
    };

    using List = std::list<Probed>;
    List::iterator find_like(const Probed &wanted, bool open);
    List::iterator find(std::uint64_t mark);
    std::optional<Probed> known(std::uint64_t mark);

    std::mutex mutex_;
    List probed_;              ///< most recent first
    std::uint64_t marks_ = 0;  ///< number of marks used
    std::atomic<std::size_t> open_ = 0;
    std::atomic<bool> any_ = false;

    MPI_Comm self_ = MPI_COMM_NULL;  ///< carries substitutes
    std::map<MPI_Message, SubstitutedMessage> substituted_;
    std::atomic<std::size_t> substituted_count_ = 0;
    std::set<MPI_Message> plain_;  ///< handles of messages without header
    std::atomic<std::size_t> plain_count_ = 0;
};

/// Returns null if the communicator was freed, or if it has processes to which no command can send.
std::shared_ptr<const Communicator> find_living(MPI_Comm comm);

/// The process's object.
ProbedMessages &probed_messages();

}  // namespace cldist
