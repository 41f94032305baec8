#include "mpi_interop/host_collective.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {

namespace {

// Bytes per block and number of blocks in flight (CollectiveTraits::in_blocks). All processes must
// use the same blocks, so the size depends on no setting or device.
constexpr std::size_t block_size = std::size_t{4} << 20U;
constexpr std::size_t depth = 4;

constexpr std::size_t aligned(std::size_t size) { return (size + 63) / 64 * 64; }

// Zeroed host memory. The system allocates only pages that are touched.
std::shared_ptr<std::byte> zeros(std::size_t size) {
    auto *const data = static_cast<std::byte *>(std::calloc(std::max<std::size_t>(size, 1), 1));
    if (data == nullptr) throw std::bad_alloc();
    return {data, std::free};
}

bool moves(CollectiveExchange &exchange) {
    exchange.poll();
    return exchange.moved();
}

}  // namespace

HostCollective::HostCollective(const Collective &what, const CollectiveSide &send,
                               const CollectiveSide &recv, const CollectiveTransport &transport,
                               Record &record, Status gate)
    : what_(what),
      send_(send),
      recv_(recv),
      transport_(transport),
      record_(record),
      status_(std::move(gate)) {
    if (kind().in_blocks) steps_.blocks = (what_.bytes + bytes_per_block() - 1) / bytes_per_block();
    if (what_.kind == CollectiveKind::barrier) steps_.blocks = 0;
    slots_ = std::vector<Slot>(std::min(steps_.blocks, depth));
    if (steps_.blocks == 1) records_ = records_of(what_, static_cast<std::size_t>(line().size()));
    if (records_)
        begin_with_records();
    else
        begin_with_blocks();
}

Progress HostCollective::poll() {
    const Steps before = steps_;
    auto &[blocks, loading, posted, storing, stored] = steps_;
    bool moved = false;
    while (loading < blocks && loading < stored + slots_.size()) load(loading++);
    while (posted < loading && copied(slot(posted)) && post(posted)) ++posted;
    if (posted == blocks && !agreement_.begun) agree();
    for (std::size_t block = storing; block < posted; ++block) moved |= moves(slot(block).exchange);
    if (agreement_.begun) moved |= moves(agreement_.exchange);
    while (storing < posted && exchanged(slot(storing))) store(storing++);
    while (stored < storing && copied(slot(stored))) ++stored;
    if (stored == blocks && agreement_.begun && agreement_.exchange.poll()) {
        end();
        return Progress::done;
    }
    return moved || steps_ != before ? Progress::moved : Progress::idle;
}

void HostCollective::begin_with_records() {
    const std::size_t all = records_->size * static_cast<std::size_t>(line().size());
    staging_.in = true;
    staging_.out = !status_.ok() || recv_.range.mapped == nullptr;
    std::byte *const memory = stage(all + (staging_.out ? recv_.range.size : 0));
    slots_[0].in = record_of(line().rank());
    if (send_.range.size == 0) std::memset(slots_[0].in, 0, records_->size - Records::head);
    slots_[0].out = staging_.out ? memory + all : recv_.range.mapped;
    const bool copies = (send_.range.mapped == nullptr && send_.range.size != 0) ||
                        (recv_.range.mapped == nullptr && recv_.range.size != 0);
    record_.chosen(copies ? Path::chunked : Path::mapped, what_.bytes, 1);
}

void HostCollective::begin_with_blocks() {
    check_operator();
    staging_.in = !status_.ok() || !in_place(send_);
    staging_.out = !status_.ok() || !in_place(recv_);
    const std::size_t in = staging_.in ? staged_size(send_) : 0;
    const std::size_t out = staging_.out ? staged_size(recv_) : 0;
    const std::size_t scratch = steps_.blocks == 0 ? 0 : aligned(rounds(0).scratch);
    const std::size_t each = in + out + scratch;
    std::byte *memory = nullptr;
    if (each * slots_.size() != 0) memory = stage(each * slots_.size());
    for (Slot &slot : slots_) {
        slot.in = staging_.in ? memory : send_.range.mapped;
        slot.out = staging_.out ? memory + in : recv_.range.mapped;
        slot.scratch = memory + in + out;
        if (memory != nullptr) memory += each;
    }
    const bool copies =
        (staging_.in && send_.range.size != 0) || (staging_.out && recv_.range.size != 0);
    record_.chosen(copies ? Path::chunked : Path::mapped,
                   kind().in_blocks ? std::min(bytes_per_block(), what_.bytes) : what_.bytes,
                   static_cast<unsigned>(std::max<std::size_t>(slots_.size(), 1)));
}

// If MPI does not allow the operator for the datatype, MPI_Reduce_local ends the program. This call
// reports the error instead.
void HostCollective::check_operator() {
    if (what_.op == MPI_OP_NULL || combinable(what_.type, what_.op)) return;
    const auto from = zeros(what_.element);
    const auto to = zeros(what_.element);
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    const int code = PMPI_Allreduce(from.get(), to.get(), 1, what_.type, what_.op, line().self());
    if (code != MPI_SUCCESS) fail(mpi_failure(code, kind().name));
}

// Returns true if MPI can use the side's memory. Operators may require aligned elements.
bool HostCollective::in_place(const CollectiveSide &side) const {
    const std::size_t alignment = what_.element & (~what_.element + 1);
    return side.range.mapped != nullptr &&
           reinterpret_cast<std::uintptr_t>(side.range.mapped) % alignment == 0;
}

std::size_t HostCollective::staged_size(const CollectiveSide &side) const {
    return aligned(kind().in_blocks ? std::min(side.range.size, bytes_per_block())
                                    : side.range.size);
}

// The other processes wait for this process. Without page-locked memory, or after a failure, it
// therefore takes part with pageable memory.
std::byte *HostCollective::stage(std::size_t size) {
    const auto &resources =
        send_.range.resources != nullptr ? send_.range.resources : recv_.range.resources;
    try {
        if (status_.ok()) return (staging_.memory = resources->staging().lease(size)).get();
    } catch (const Error &error) {
        fail(error.status());
    } catch (const std::bad_alloc &) {
        fail(
            Status::failure(CL_OUT_OF_HOST_MEMORY, "cannot allocate host memory for the transfer"));
    }
    try {
        return (staging_.memory = zeros(size)).get();
    } catch (const std::bad_alloc &) {
        log_error(
            "no memory for the {} bytes that {} needs; the processes that take part would wait "
            "forever",
            size, record_.far_end);
        PMPI_Abort(line().comm(), 1);
        throw;
    }
}

void HostCollective::load(std::size_t block) {
    Slot &slot = this->slot(block);
    slot.copies.clear();
    if (!staging_.in || !status_.ok()) return;
    copy_pieces(send_, block, slot.in, read_mapped, start_read);
}

// Posts the block's messages. Returns false if too many exchanges are in flight.
bool HostCollective::post(std::size_t block) {
    Slot &slot = this->slot(block);
    slot.posted_ns = now_ns();
    if (records_) return post_records(slot);
    const std::size_t at = kind().in_blocks ? span(block).offset : 0;
    CollectiveExchange::Memory memory{staging_.in ? slot.in : slot.in + at,
                                      staging_.out ? slot.out : slot.out + at, slot.scratch};
    if (kind().gives_parts && kind().gets_parts && memory.in == memory.out &&
        send_.range.size != 0) {
        slot.copy_of_sent = zeros(send_.range.size);
        std::memcpy(slot.copy_of_sent.get(), slot.in, send_.range.size);
        memory.in = slot.copy_of_sent.get();
    }
    // After a failure the process does not combine, because no process uses the result.
    return slot.exchange.begin(rounds(block), memory,
                               {what_.type, status_.ok() ? what_.op : MPI_OP_NULL, what_.element},
                               transport_);
}

bool HostCollective::post_records(Slot &slot) {
    const int own = own_result();
    std::memcpy(head_of(line().rank()), &own, sizeof own);
    if (!slot.exchange.begin(record_rounds(me(), records_->size), {.scratch = head_of(0)}, {},
                             transport_))
        return false;
    agreement_.begun = true;
    agreement_.begun_ns = slot.posted_ns;
    return true;
}

bool HostCollective::exchanged(Slot &slot) {
    if (!slot.exchange.poll()) return false;
    if (!slot.exchange.status().ok()) fail(slot.exchange.status());
    if (records_) take_records_of_all(slot);
    return true;
}

void HostCollective::take_records_of_all(const Slot &slot) {
    if (!status_.ok()) return;
    agreement_.result = own_result();
    for (int rank = 0; rank < line().size(); ++rank) {
        int theirs = 0;
        std::memcpy(&theirs, head_of(rank), sizeof theirs);
        agreement_.result = std::max(agreement_.result, theirs);
    }
    if (!take_result()) return;
    if (recv_.range.size != 0)
        take_records(what_, me(), *records_, record_of(0), {slot.out, recv_.range.size});
}

void HostCollective::store(std::size_t block) {
    Slot &slot = this->slot(block);
    record_.stage_done(Stage::message, slot.posted_ns);
    if (!status_.ok()) return;
    record_.moved(kind().in_blocks ? span(block).size
                                   : std::max(send_.range.size, recv_.range.size));
    if (!staging_.out) return;
    copy_pieces(recv_, block, slot.out, write_mapped, start_write);
}

// Copies the pieces of a block between the side and the slot's `memory`, with `copy` if the side is
// mapped.
template <typename Copy, typename Enqueue>
void HostCollective::copy_pieces(const CollectiveSide &side, std::size_t block, std::byte *memory,
                                 Copy copy, Enqueue enqueue) {
    const DeviceRange &range = side.range;
    if (range.size == 0) return;
    const bool wait = steps_.blocks == 1 && range.waits_for_copies();
    const auto copy_piece = [&](const Span &piece, std::size_t at) {
        if (range.mapped != nullptr)
            copy(range, piece.offset, piece.size, memory + at);
        else
            enqueue(slot(block).copies.emplace_back(), range, piece.offset, piece.size, memory + at,
                    wait);
    };
    if (kind().in_blocks)
        copy_piece(span(block), 0);
    else
        for (const Span &piece : pieces_of(side.parts, range.size)) copy_piece(piece, piece.offset);
}

// Returns true if the device has finished its copies for the slot.
bool HostCollective::copied(Slot &slot) {
    while (!slot.copies.empty()) {
        const Outcome outcome = slot.copies.front().ended();
        if (!outcome) return false;
        record_.stage_done(Stage::device, slot.copies.front().start_ns());
        slot.copies.pop_front();
        if (!outcome->ok()) fail(*outcome);
    }
    return true;
}

// Begins to exchange the results of all processes. No process ends before all have started.
void HostCollective::agree() {
    agreement_.result = own_result();
    CollectiveExchange::Memory memory;
    memory.out = reinterpret_cast<std::byte *>(&agreement_.result);
    memory.scratch = reinterpret_cast<std::byte *>(agreement_.scratch.data());
    if (!agreement_.exchange.begin(agreement_rounds(me()), memory, {MPI_INT, MPI_MAX, sizeof(int)},
                                   transport_))
        return;
    agreement_.begun = true;
    agreement_.begun_ns = now_ns();
}

HostCollective::Result HostCollective::own_result() const {
    if (!status_.ok()) return failure;
    return line().devices() != nullptr && line().devices()->prepared() ? devices_ready : success;
}

// Applies the result of all. Returns false if some process has failed.
bool HostCollective::take_result() {
    if (agreement_.result == devices_ready && line().devices() != nullptr)
        line().devices()->activate();
    if (agreement_.result != failure) return true;
    fail(Status::failure(
        CL_PEER_TRANSFER_FAILED,
        fmt::format("{}: the wait list or the device of another process failed", record_.far_end)));
    return false;
}

void HostCollective::end() {
    record_.stage_done(Stage::message, agreement_.begun_ns);
    if (!agreement_.exchange.status().ok())
        fail(agreement_.exchange.status());
    else
        take_result();
    slots_.clear();
    staging_.memory.reset();
}

std::size_t HostCollective::bytes_per_block() const {
    return std::max(block_size / what_.element, std::size_t{1}) * what_.element;
}

// The range of a block in both sides.
Span HostCollective::span(std::size_t block) const {
    const std::size_t offset = block * bytes_per_block();
    return {offset, std::min(bytes_per_block(), what_.bytes - offset)};
}

Rounds HostCollective::rounds(std::size_t block) const {
    // Kernels combine in this order, and the result must not depend on who combines.
    const bool in_rank_order = line().devices() != nullptr && line().devices()->agreed();
    switch (what_.kind) {
        case CollectiveKind::barrier: return {};
        case CollectiveKind::bcast: return broadcast_rounds(me(), what_.root, span(block).size);
        case CollectiveKind::reduce:
            return reduce_rounds(me(), what_.root, span(block).size, what_.element, in_rank_order);
        case CollectiveKind::allreduce:
            return allreduce_rounds(me(), span(block).size, what_.element, in_rank_order);
        case CollectiveKind::reduce_scatter: {
            std::vector<std::size_t> parts = what_.counts;
            for (std::size_t &part : parts) part *= what_.element;
            return reduce_scatter_rounds(me(), parts);
        }
        case CollectiveKind::gather:
        case CollectiveKind::gatherv:
        case CollectiveKind::scatter:
        case CollectiveKind::scatterv:
        case CollectiveKind::allgather:
        case CollectiveKind::allgatherv:
        case CollectiveKind::alltoall:
        case CollectiveKind::alltoallv: break;
    }
    return exchange_rounds(
        me(), [this](int to) { return given_to(what_, send_, line().rank(), to); },
        [this](int from) { return got_from(what_, recv_, line().rank(), from); });
}

// The status in a process's record, and the data behind it in record_of().
std::byte *HostCollective::head_of(int rank) const {
    return staging_.memory.get() + records_->size * static_cast<std::size_t>(rank);
}

}  // namespace cldist
