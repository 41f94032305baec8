#include "mpi_interop/probed_messages.hpp"

#include <algorithm>
#include <utility>

#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/runtime.hpp"
#include "mpi_interop/wire.hpp"
#include "mpi_interop/wire_choice.hpp"

namespace cldist {
namespace {

constexpr std::size_t most_known = 64;

constexpr auto header_bytes = static_cast<MPI_Count>(header_size);

// The count of a status has 63 bits in all MPI libraries. No message has 16 TiB, so the upper bits
// are free for a mark.
constexpr int count_bits = 44;
constexpr std::uint64_t largest_mark = (std::uint64_t{1} << (63 - count_bits)) - 1;

std::uint64_t mark_of(const MPI_Status &status) {
    return static_cast<std::uint64_t>(bytes_of(status)) >> count_bits;
}

void set_count(MPI_Status &status, std::uint64_t mark, MPI_Count bytes) {
    PMPI_Status_set_elements_x(&status, MPI_BYTE,
                               static_cast<MPI_Count>(mark << count_bits) | bytes);
}

MPI_Count count_without_mark(const MPI_Status &status) {
    return static_cast<MPI_Count>(bytes_of(status) & ((std::size_t{1} << count_bits) - 1));
}

MPI_Count payload_in(const std::vector<std::byte> &content) {
    const auto header = decode(content);
    return header ? static_cast<MPI_Count>(header->size) : MPI_UNDEFINED;
}

}  // namespace

bool ProbedMessages::Probed::open() const { return bytes == header_bytes && !payload; }

// Until a message is received, further probes find the same message.
ProbedMessages::List::iterator ProbedMessages::find_like(const Probed &wanted, bool open) {
    return std::find_if(probed_.begin(), probed_.end(), [&](const Probed &probed) {
        return probed.comm == wanted.comm && probed.source == wanted.source &&
               probed.tag == wanted.tag && probed.bytes == wanted.bytes && probed.open() == open &&
               (open || probed.payload == wanted.payload);
    });
}

ProbedMessages::List::iterator ProbedMessages::find(std::uint64_t mark) {
    return std::find_if(probed_.begin(), probed_.end(),
                        [&](const Probed &probed) { return probed.mark == mark; });
}

std::optional<ProbedMessages::Probed> ProbedMessages::known(std::uint64_t mark) {
    const std::lock_guard lock(mutex_);
    const auto at = find(mark);
    return at != probed_.end() ? std::optional(*at) : std::nullopt;
}

void ProbedMessages::mark(MPI_Comm comm, MPI_Status &status,
                          const std::vector<std::byte> &content) {
    if (status.MPI_SOURCE == MPI_PROC_NULL || cldist_mpi_cl_mem == MPI_DATATYPE_NULL) return;
    Probed probed{
        comm, status.MPI_SOURCE, status.MPI_TAG, static_cast<MPI_Count>(bytes_of(status)), {}, 0};
    if (!content.empty()) probed.payload = payload_in(content);
    const std::lock_guard lock(mutex_);
    if (const auto before = find_like(probed, probed.open()); before != probed_.end()) {
        probed_.splice(probed_.begin(), probed_, before);
    } else {
        do {
            probed.mark = 1 + marks_++ % largest_mark;
        } while (find(probed.mark) != probed_.end());
        if (probed.open()) ++open_;
        probed_.push_front(probed);
        if (probed_.size() > most_known) {
            if (probed_.back().open()) --open_;
            probed_.pop_back();
        }
    }
    any_ = true;
    set_count(status, probed_.front().mark, probed.bytes);
}

std::optional<MPI_Status> ProbedMessages::without_mark(const MPI_Status &status) const {
    if (!any_ || mark_of(status) == 0) return std::nullopt;
    MPI_Status copy = status;
    set_count(copy, 0, count_without_mark(status));
    return copy;
}

MPI_Count ProbedMessages::payload_of(const MPI_Status &status) {
    const std::uint64_t mark = any_ ? mark_of(status) : 0;
    if (mark == 0) return static_cast<MPI_Count>(bytes_of(status));
    std::optional<Probed> probed = known(mark);
    if (!probed) return MPI_UNDEFINED;
    const std::shared_ptr<const Communicator> comm = find_living(probed->comm);
    if (comm != nullptr && comm->wire() == Wire::plain) return probed->bytes;
    if (probed->bytes != header_bytes)
        return probed->bytes > header_bytes ? probed->bytes - header_bytes : MPI_UNDEFINED;
    if (probed->open() && comm != nullptr) {
        const MessagePattern pattern{comm, probed->source, probed->tag};
        message_order().peek(pattern);  // a receive that became pending meanwhile may take it
        probed = known(mark);
        if (probed && probed->open()) {
            // The message is put back, where its receive or another probe finds it.
            message_order().read(pattern, header_size);
            probed = known(mark);
        }
    }
    return probed ? probed->payload.value_or(MPI_UNDEFINED) : MPI_UNDEFINED;
}

void ProbedMessages::note_taken(const Communicator &comm, MatchedMessage &message) {
    if (message.bytes != header_size || !any_to_note() || comm.wire() == Wire::plain) return;
    const std::lock_guard lock(mutex_);
    const auto probed =
        find_like({comm.handle(), message.source, message.tag, header_bytes, {}, 0}, true);
    if (probed == probed_.end()) return;
    receive_content(message);
    probed->payload = payload_in(message.content);
    --open_;
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
    return bytes == header_size && cldist_mpi_cl_mem != MPI_DATATYPE_NULL;
}

MPI_Message ProbedMessages::substitute(MPI_Comm comm, MatchedMessage &message) {
    if (message.content.empty()) receive_content(message);
    SubstitutedMessage substituted{comm, message.source, message.tag, message.content};
    const std::lock_guard lock(mutex_);
    // On self_, only this message has no handle yet.
    check_mpi(PMPI_Isend(substituted.content.data(), static_cast<int>(message.bytes), MPI_BYTE, 0,
                         0, self_, &substituted.sent),
              "MPI_Isend");
    MPI_Message handle = MPI_MESSAGE_NULL;
    check_mpi(PMPI_Mprobe(0, 0, self_, &handle, MPI_STATUS_IGNORE), "MPI_Mprobe");
    substituted_.emplace(handle, std::move(substituted));
    ++substituted_count_;
    return handle;
}

void ProbedMessages::note_handle(MPI_Message handle, bool plain) {
    if (cldist_mpi_cl_mem == MPI_DATATYPE_NULL || handle == MPI_MESSAGE_NO_PROC) return;
    if (!plain) {
        take_plain(handle);  // a stale entry, if the library did not see its receive
        return;
    }
    const std::lock_guard lock(mutex_);
    plain_.insert(handle);
    plain_count_ = plain_.size();
}

bool ProbedMessages::take_plain(MPI_Message handle) {
    if (plain_count_ == 0) return false;
    const std::lock_guard lock(mutex_);
    const bool plain = plain_.erase(handle) != 0;
    plain_count_ = plain_.size();
    return plain;
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

std::shared_ptr<const Communicator> find_living(MPI_Comm comm) {
    try {
        return Runtime::current_in_mpi_call()->communicators().find(comm);
    } catch (const Error &) {
        return nullptr;
    }
}

ProbedMessages &probed_messages() {
    // Never destroyed, because calls may arrive at exit.
    static auto &instance = *new ProbedMessages;
    return instance;
}

}  // namespace cldist
