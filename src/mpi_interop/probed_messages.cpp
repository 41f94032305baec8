#include "mpi_interop/probed_messages.hpp"

#include <utility>

#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/runtime.hpp"
#include "mpi_interop/wire.hpp"
#include "mpi_interop/wire_choice.hpp"

namespace cldist {
namespace {

MPI_Count payload_in(const std::vector<std::byte> &content) {
    const auto envelope = decode(content);
    return envelope ? static_cast<MPI_Count>(envelope->size) : MPI_UNDEFINED;
}

// Nothing if only the message itself can tell.
std::optional<MPI_Count> payload_behind(MPI_Count bytes) {
    constexpr auto envelope = static_cast<MPI_Count>(envelope_size);
    if (bytes == envelope) return std::nullopt;
    return bytes > envelope ? bytes - envelope : MPI_UNDEFINED;
}

// Takes the message off the wire and puts it back to where its receive, or another probe, finds it. Nothing if another
// thread has received it meanwhile.
std::vector<std::byte> content_by_taking(MPI_Comm handle, int source, int tag) {
    const std::shared_ptr<const Communicator> comm = Runtime::current()->communicators().find(handle);
    const std::optional<MatchedMessage> message = message_order().read({comm, source, tag}, envelope_size);
    if (!message) return {};
    check_mpi(message->error, "MPI_Improbe");
    return message->content;
}

}  // namespace

void ProbedMessages::note_probed(MPI_Comm comm, const MPI_Status &status, const std::vector<std::byte> &content) {
    if (status.MPI_SOURCE == MPI_PROC_NULL) return;
    const auto bytes = static_cast<MPI_Count>(bytes_of(status));
    const std::optional<MPI_Count> payload = content.empty() ? payload_behind(bytes) : payload_in(content);
    const std::lock_guard lock(mutex_);
    probes_.at(next_) = {comm, status.MPI_SOURCE, status.MPI_TAG, bytes, payload};
    next_ = (next_ + 1) % probes_.size();
    any_probes_ = true;
}

void ProbedMessages::note_received(const MPI_Status &status) {
    if (!any_probes_) return;
    const auto bytes = static_cast<MPI_Count>(bytes_of(status));
    const std::lock_guard lock(mutex_);
    for (Probe &probe : probes_)
        if (probe.source == status.MPI_SOURCE && probe.tag == status.MPI_TAG && probe.bytes == bytes) probe = {};
}

std::optional<ProbedMessages::Probe> ProbedMessages::find(const MPI_Status &status) {
    if (!any_probes_ || status.MPI_SOURCE == MPI_PROC_NULL) return std::nullopt;
    const auto bytes = static_cast<MPI_Count>(bytes_of(status));
    const std::lock_guard lock(mutex_);
    for (std::size_t age = 1; age <= probes_.size(); ++age) {
        const Probe &probe = probes_.at((next_ + probes_.size() - age) % probes_.size());
        if (probe.source == status.MPI_SOURCE && probe.tag == status.MPI_TAG && probe.bytes == bytes) return probe;
    }
    return std::nullopt;
}

MPI_Count ProbedMessages::payload_of(const MPI_Status &status) {
    const std::optional<Probe> probe = find(status);
    if (!probe || wire_of(probe->comm) == Wire::plain) return static_cast<MPI_Count>(bytes_of(status));
    if (probe->payload) return *probe->payload;
    const std::vector<std::byte> content = content_by_taking(probe->comm, probe->source, probe->tag);
    if (content.empty()) return MPI_UNDEFINED;
    note_probed(probe->comm, status, content);
    return payload_in(content);
}

void ProbedMessages::begin() {
    const MPI_Comm copy = duplicate(MPI_COMM_SELF);
    const std::lock_guard lock(mutex_);
    self_ = copy;
}

void ProbedMessages::end() {
    const std::lock_guard lock(mutex_);
    if (self_ != MPI_COMM_NULL) PMPI_Comm_free(&self_);
}

bool ProbedMessages::to_substitute(std::size_t bytes) const {
    return bytes == envelope_size && cldist_mpi_cl_mem != MPI_DATATYPE_NULL;
}

MPI_Message ProbedMessages::substitute(MPI_Comm comm, MatchedMessage &message) {
    if (message.content.empty()) receive_content(message);
    SubstitutedMessage substituted{comm, message.source, message.tag, message.content};
    const std::lock_guard lock(mutex_);
    // Of all messages to itself it is the only one that no handle stands for yet.
    check_mpi(PMPI_Isend(substituted.content.data(), static_cast<int>(message.bytes), MPI_BYTE, 0, 0, self_,
                         &substituted.sent),
              "MPI_Isend");
    MPI_Message handle = MPI_MESSAGE_NULL;
    check_mpi(PMPI_Mprobe(0, 0, self_, &handle, MPI_STATUS_IGNORE), "MPI_Mprobe");
    substituted_.emplace(handle, std::move(substituted));
    ++substituted_count_;
    return handle;
}

bool ProbedMessages::is_substituted(MPI_Message handle) {
    if (substituted_count_ == 0) return false;
    const std::lock_guard lock(mutex_);
    return substituted_.find(handle) != substituted_.end();
}

std::optional<SubstitutedMessage> ProbedMessages::take_substituted(MPI_Message handle) {
    const std::lock_guard lock(mutex_);
    const auto at = substituted_.find(handle);
    if (at == substituted_.end()) return std::nullopt;
    SubstitutedMessage substituted = std::move(at->second);
    substituted_.erase(at);
    --substituted_count_;
    return substituted;
}

ProbedMessages &probed_messages() {
    // Never destroyed: calls may come at exit.
    static auto &instance = *new ProbedMessages;
    return instance;
}

}  // namespace cldist
