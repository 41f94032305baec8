/// Wraps the program's probes through the PMPI interface. A probe must not find the messages of the
/// library's receives, and reports the size of a message without its header.

#include <optional>

#include "api/mpi_boundary.hpp"
#include "base/backoff.hpp"
#include "mpi_interop/message_order.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/probed_messages.hpp"
#include "mpi_interop/runtime.hpp"
#include "mpi_interop/wire_choice.hpp"

using namespace cldist;

namespace {

/// The arguments of a probe.
struct ProbeArguments {
    const char *call;
    int source;
    int tag;
    MPI_Comm comm;
    bool wait;     ///< MPI_Probe or MPI_Mprobe; false for MPI_Iprobe and MPI_Improbe
    bool matched;  ///< MPI_Mprobe or MPI_Improbe: the message is matched
};

// Returns true if MPI alone determines the result of a probe. The message of a matching probe
// (`taking`) may have a marked status.
bool quiet(int source, MPI_Comm comm, bool taking = false) {
    return (message_order().quiet() && !(taking && probed_messages().any_to_note())) ||
           source == MPI_PROC_NULL || find_living(comm) == nullptr;
}

std::optional<MatchedMessage> find(const ProbeArguments &probe, const MessagePattern &pattern) {
    Backoff backoff(caller_patience);
    for (;;) {
        auto found = probe.matched ? message_order().take(pattern) : message_order().peek(pattern);
        if (found || !probe.wait) return found;
        backoff.rest(false);
    }
}

// Sets `handle` to MPI's handle of the message or to a substitute.
void hand_out(MPI_Comm comm, MatchedMessage &message, MPI_Message *handle) {
    const bool plain = wire_of(comm) == Wire::plain;
    const bool substituted = !plain && probed_messages().to_substitute(message.bytes);
    *handle = substituted ? probed_messages().substitute(comm, message) : message.message;
    probed_messages().note_handle(*handle, plain);
}

// Probes while the library has pending receives or messages that were put back. Messages for
// pending receives are hidden. MPI reports invalid arguments.
CLDIST_COLD int probe_beside_receives(const ProbeArguments &probe, int *flag, MPI_Message *handle,
                                      MPI_Status *status) {
    int code = MPI_SUCCESS;
    const int failure = at_mpi_boundary(probe.call, probe.comm, [&] {
        const std::shared_ptr<const Communicator> comm =
            Runtime::current_in_mpi_call()->communicators().find(probe.comm);
        auto found = find(probe, {comm, probe.source, probe.tag});
        *flag = found ? 1 : 0;
        if (!found) return;
        code = found->error;
        if (code != MPI_SUCCESS) return;
        MPI_Status own;
        MPI_Status &written = status == MPI_STATUS_IGNORE ? own : *status;
        set_status(written, found->source, found->tag, static_cast<MPI_Count>(found->bytes));
        if (probe.matched) hand_out(probe.comm, *found, handle);
        probed_messages().mark(probe.comm, written, found->content);
    });
    return failure == MPI_SUCCESS ? code : failure;
}

// The message that MPI_Mprobe matched may be a header, but MPI_Get_count must report the payload.
CLDIST_COLD int after_mprobe(const char *call, MPI_Comm comm, MPI_Message *handle,
                             MPI_Status &status) {
    return at_mpi_boundary(call, comm, [&] {
        MatchedMessage message{*handle,          status.MPI_SOURCE, status.MPI_TAG,
                               bytes_of(status), MPI_SUCCESS,       {}};
        hand_out(comm, message, handle);
        probed_messages().mark(comm, status, message.content);
    });
}

}  // namespace

extern "C" {

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    if (!quiet(source, comm)) {
        int flag = 0;
        return probe_beside_receives({"MPI_Probe", source, tag, comm, true, false}, &flag, nullptr,
                                     status);
    }
    const int code = PMPI_Probe(source, tag, comm, status);
    if (code == MPI_SUCCESS && status != MPI_STATUS_IGNORE) probed_messages().mark(comm, *status);
    return code;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    if (!quiet(source, comm))
        return probe_beside_receives({"MPI_Iprobe", source, tag, comm, false, false}, flag, nullptr,
                                     status);
    const int code = PMPI_Iprobe(source, tag, comm, flag, status);
    if (code == MPI_SUCCESS && *flag != 0 && status != MPI_STATUS_IGNORE)
        probed_messages().mark(comm, *status);
    return code;
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    if (!quiet(source, comm, true)) {
        int flag = 0;
        return probe_beside_receives({"MPI_Mprobe", source, tag, comm, true, true}, &flag, message,
                                     status);
    }
    MPI_Status own;
    MPI_Status *written = status == MPI_STATUS_IGNORE ? &own : status;
    const int code = PMPI_Mprobe(source, tag, comm, message, written);
    return code == MPI_SUCCESS ? after_mprobe("MPI_Mprobe", comm, message, *written) : code;
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    if (!quiet(source, comm, true))
        return probe_beside_receives({"MPI_Improbe", source, tag, comm, false, true}, flag, message,
                                     status);
    MPI_Status own;
    MPI_Status *written = status == MPI_STATUS_IGNORE ? &own : status;
    const int code = PMPI_Improbe(source, tag, comm, flag, message, written);
    return code == MPI_SUCCESS && *flag != 0 ? after_mprobe("MPI_Improbe", comm, message, *written)
                                             : code;
}

}  // extern "C"
