#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

/// What MPI_Probe and its relatives told the program, so that MPI_Get_count can tell the payload. A status that a probe
/// wrote has the bytes on the wire, envelope included; whose payload is in blocks can't be told without taking the
/// envelope off the wire.
class ProbedMessages {
public:
    /// The message of `status` was found by a probe on `comm`; the payload is that of the content, if it is known.
    void note_probed(MPI_Comm comm, const MPI_Status &status, const std::vector<std::byte> &content = {});
    /// `status`, with the payload's bytes, is that of a receive.
    void note_received(const MPI_Status &status);
    /// The payload's bytes, or MPI_UNDEFINED if it is a probe's status of a message that no command or call with
    /// MPI_CL_MEM can have sent. Throws an Error.
    MPI_Count payload_of(const MPI_Status &status);

    /// Makes substitutes possible, until end(). Throws an Error.
    void begin();
    void end();
    /// Whether a message of that many bytes that MPI_Mprobe took is to be substituted.
    [[nodiscard]] bool to_substitute(std::size_t bytes) const;
    /// Receives `message`, unless it has its content, and gives a handle in its place. Throws an Error.
    MPI_Message substitute(MPI_Comm comm, MatchedMessage &message);
    [[nodiscard]] bool is_substituted(MPI_Message handle);
    /// If `handle` is one of substitute(): what it stands for, which is the caller's now.
    std::optional<SubstitutedMessage> take_substituted(MPI_Message handle);

private:
    struct Probe {
        MPI_Comm comm = MPI_COMM_NULL;
        int source = MPI_PROC_NULL;
        int tag = 0;
        MPI_Count bytes = 0;
        std::optional<MPI_Count> payload;
    };

    std::optional<Probe> find(const MPI_Status &status);

    std::mutex mutex_;
    std::array<Probe, 64> probes_;  ///< the last ones, in turn; source MPI_PROC_NULL: none
    std::size_t next_ = 0;
    std::atomic<bool> any_probes_ = false;

    MPI_Comm self_ = MPI_COMM_NULL;  ///< of substitutes
    std::map<MPI_Message, SubstitutedMessage> substituted_;
    std::atomic<std::size_t> substituted_count_ = 0;
};

/// The one of the process.
ProbedMessages &probed_messages();

}  // namespace cldist
