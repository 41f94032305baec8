#include "mpi_interop/collective_operations.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "mpi_interop/byte_type.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {

const char *name_of(CollectiveKind kind) {
    switch (kind) {
        case CollectiveKind::barrier: return "Barrier";
        case CollectiveKind::bcast: return "Bcast";
        case CollectiveKind::gather: return "Gather";
        case CollectiveKind::gatherv: return "Gatherv";
        case CollectiveKind::scatter: return "Scatter";
        case CollectiveKind::scatterv: return "Scatterv";
        case CollectiveKind::allgather: return "Allgather";
        case CollectiveKind::allgatherv: return "Allgatherv";
        case CollectiveKind::alltoall: return "Alltoall";
        case CollectiveKind::alltoallv: return "Alltoallv";
        case CollectiveKind::reduce: return "Reduce";
        case CollectiveKind::allreduce: return "Allreduce";
        case CollectiveKind::reduce_scatter: return "Reduce_scatter";
    }
    return "";
}

namespace {

// What can be done in blocks is. All processes must have the same blocks, so no setting and no device has a say.
constexpr std::size_t block_size = std::size_t{4} << 20U;
constexpr std::size_t depth = 4;

constexpr auto largest_int = static_cast<std::size_t>(std::numeric_limits<int>::max());

bool in_blocks(CollectiveKind kind) {
    return kind == CollectiveKind::bcast || kind == CollectiveKind::reduce || kind == CollectiveKind::allreduce;
}

// Of operators and datatypes that MPI allows together, the usual ones: MPI_Reduce_local may be used. It would end the program if
// MPI did not allow them.
bool combines_here(MPI_Datatype type, MPI_Op op) {
    const std::array any_type{MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD};
    const std::array of_integers{MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR};
    const std::array reals{MPI_FLOAT, MPI_DOUBLE};
    const std::array integers{MPI_INT,     MPI_UNSIGNED,       MPI_LONG,      MPI_UNSIGNED_LONG,
                              MPI_SHORT,   MPI_UNSIGNED_SHORT, MPI_INT8_T,    MPI_UINT8_T,
                              MPI_INT16_T, MPI_UINT16_T,       MPI_INT32_T,   MPI_UINT32_T,
                              MPI_INT64_T, MPI_UINT64_T,       MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG};
    const auto is_in = [](const auto &list, auto value) {
        return std::find(list.begin(), list.end(), value) != list.end();
    };
    const bool integer = is_in(integers, type);
    return (integer || is_in(reals, type)) && (is_in(any_type, op) || (integer && is_in(of_integers, op)));
}

// Small collectives are one all-gather: each process gives all others a record with what it gives, and with whether it could
// do its part. MPI's own would need a second one for that. All processes decide alike.
struct Records {
    static constexpr std::size_t head = 64;  // an int, and what keeps data aligned
    std::size_t size;                        // of one
};
std::optional<Records> records_of(const Collective &what, std::size_t processes) {
    constexpr std::size_t most = std::size_t{8} << 10U;
    // Where each process wants what all give.
    constexpr std::size_t most_for_all = std::size_t{256} << 10U;
    constexpr std::size_t few = 8;
    std::size_t given = what.bytes;
    bool for_all = false;
    switch (what.kind) {
        case CollectiveKind::bcast:
        case CollectiveKind::gather: break;
        case CollectiveKind::scatter:
        case CollectiveKind::alltoall:
            if (given > most) return {};
            given *= processes;
            break;
        case CollectiveKind::allgather: for_all = true; break;
        case CollectiveKind::reduce:
        case CollectiveKind::allreduce:
        case CollectiveKind::reduce_scatter:
            if (!combines_here(what.type, what.op)) return {};
            for_all = what.kind != CollectiveKind::reduce && processes <= few;
            break;
        default: return {};
    }
    if (given > most_for_all) return {};
    const std::size_t size = Records::head + (given + 63) / 64 * 64;
    if (size * processes > (for_all ? most_for_all : most)) return {};
    return Records{size};
}

// The spans' bytes in as few pieces as may be, for the device.
std::vector<Span> pieces_of(const CollectiveSide &side) {
    if (side.parts.empty()) return {{0, side.range.size}};
    std::vector<Span> pieces;
    for (const Span &part : side.parts)
        if (part.size != 0) pieces.push_back(part);
    std::sort(pieces.begin(), pieces.end(), [](const Span &a, const Span &b) { return a.offset < b.offset; });
    std::vector<Span> merged;
    for (const Span &piece : pieces) {
        if (!merged.empty() && piece.offset <= merged.back().offset + merged.back().size) {
            const std::size_t end = std::max(merged.back().offset + merged.back().size, piece.offset + piece.size);
            merged.back().size = end - merged.back().offset;
        } else {
            merged.push_back(piece);
        }
    }
    return merged;
}

// Host memory that is zero, and of which only what is touched is there.
struct Zeros {
    explicit Zeros(std::size_t size) : data(static_cast<std::byte *>(std::calloc(std::max<std::size_t>(size, 1), 1))) {
        if (data == nullptr) throw std::bad_alloc();
    }
    Zeros(const Zeros &) = delete;
    Zeros &operator=(const Zeros &) = delete;
    ~Zeros() { std::free(data); }
    std::byte *const data;
};

class CollectiveOperation final : public Operation {
public:
    CollectiveOperation(Collective what, CollectiveSide send, CollectiveSide recv, std::shared_ptr<CollectiveLine> line,
                        MessageDriver &driver)
        : Operation(make_record(what, send, recv, *line)),
          what_(std::move(what)),
          send_(std::move(send)),
          recv_(std::move(recv)),
          line_(std::move(line)),
          driver_(driver) {
        line_->enter(this, [turn = turn_] {
            const std::lock_guard lock(turn->mutex);
            if (turn->waker) turn->waker();
        });
    }
    ~CollectiveOperation() override { line_->leave(this); }

    void woken_by(const Waker &waker) override {
        const std::lock_guard lock(turn_->mutex);
        turn_->waker = waker;
    }

    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
    }

    Progress poll() override {
        if (!begun_) {
            if (!line_->is_first(this)) return Progress::idle;
            const Outcome ready = line_->ready();
            if (!ready) return Progress::idle;
            if (!ready->ok()) {
                fail(*ready);
                line_->leave(this);
                return Progress::done;
            }
            begin();
        }
        const std::size_t before = loading_ + posted_ + storing_ + stored_;
        while (loading_ < blocks_ && loading_ < stored_ + slots_.size()) load(loading_++);
        while (posted_ < loading_ && copied(slot(posted_))) post(posted_++);
        if (posted_ == blocks_ && !asked_) ask_all();
        while (storing_ < posted_ && exchanged(slot(storing_))) store(storing_++);
        while (stored_ < storing_ && copied(slot(stored_))) ++stored_;
        if (stored_ == blocks_ && asked_ && verdict_.done) {
            end();
            return Progress::done;
        }
        return loading_ + posted_ + storing_ + stored_ != before ? Progress::moved : Progress::idle;
    }

    [[nodiscard]] bool bytes_in_flight() const override { return begun_; }
    [[nodiscard]] bool wakes() const override {
        const std::lock_guard lock(turn_->mutex);
        if (!turn_->waker) return false;
        if (!begun_) return !line_->is_first(this);
        // What MPI ends wakes, what the device ends does not.
        return asked_ && storing_ == stored_;
    }

private:
    struct Turn {
        mutable std::mutex mutex;
        Waker waker;
    };
    struct Slot {
        std::byte *in = nullptr;
        std::byte *out = nullptr;
        std::deque<DeviceCommand> copies;
        std::vector<MessageTicket> tickets;
        std::optional<ByteType> type;
        std::vector<int> counts;
        std::optional<Zeros> copy;
        std::uint64_t posted_ns = 0;
    };

    Slot &slot(std::size_t block) { return slots_[block % slots_.size()]; }
    [[nodiscard]] std::size_t bytes_per_block() const {
        return std::max(block_size / what_.element, std::size_t{1}) * what_.element;
    }
    // The part of the sides that a block is.
    [[nodiscard]] Span span(std::size_t block) const {
        const std::size_t offset = block * bytes_per_block();
        return {offset, std::min(bytes_per_block(), what_.bytes - offset)};
    }
    [[nodiscard]] bool is_root() const { return what_.root == line_->rank(); }

    void begin() {
        begun_ = true;
        waker_ = [this] {
            const std::lock_guard lock(turn_->mutex);
            return turn_->waker;
        }();
        blocks_ = 1;
        if (in_blocks(what_.kind)) blocks_ = (what_.bytes + bytes_per_block() - 1) / bytes_per_block();
        if (what_.kind == CollectiveKind::barrier) blocks_ = 0;
        slots_ = std::vector<Slot>(std::min(blocks_, depth));
        if (blocks_ == 1) records_ = records_of(what_, static_cast<std::size_t>(line_->size()));
        if (records_) return begin_with_records();
        staged_in_ = !status().ok() || !in_place(send_);
        staged_out_ = !status().ok() || !in_place(recv_);
        const std::size_t in = staged_in_ ? staged_size(send_) : 0;
        const std::size_t out = staged_out_ ? staged_size(recv_) : 0;
        std::byte *memory = nullptr;
        if ((in + out) * slots_.size() != 0) memory = staging((in + out) * slots_.size());
        for (Slot &slot : slots_) {
            slot.in = staged_in_ ? memory : send_.range.mapped;
            slot.out = staged_out_ ? memory + in : recv_.range.mapped;
            if (memory != nullptr) memory += in + out;
        }
        const bool copies = (staged_in_ && send_.range.size != 0) || (staged_out_ && recv_.range.size != 0);
        record()->chosen(copies ? Path::pipelined : Path::mapped,
                         in_blocks(what_.kind) ? std::min(bytes_per_block(), what_.bytes) : what_.bytes,
                         static_cast<unsigned>(std::max<std::size_t>(slots_.size(), 1)));
    }

    void begin_with_records() {
        const std::size_t all = records_->size * static_cast<std::size_t>(line_->size());
        staged_in_ = true;
        staged_out_ = !status().ok() || recv_.range.mapped == nullptr;
        std::byte *const memory = staging(all + (staged_out_ ? recv_.range.size : 0));
        records_memory_ = memory;
        slots_[0].in = record_of(line_->rank());
        if (send_.range.size == 0) std::memset(slots_[0].in, 0, records_->size - Records::head);
        slots_[0].out = staged_out_ ? memory + all : recv_.range.mapped;
        const bool copies = (send_.range.mapped == nullptr && send_.range.size != 0) ||
                            (recv_.range.mapped == nullptr && recv_.range.size != 0);
        record()->chosen(copies ? Path::pipelined : Path::mapped, what_.bytes, 1);
    }
    // What a process gives.
    [[nodiscard]] std::byte *record_of(int rank) const {
        return records_memory_ + records_->size * static_cast<std::size_t>(rank) + Records::head;
    }
    [[nodiscard]] std::byte *head_of(int rank) const { return record_of(rank) - Records::head; }

    // Whether MPI can have the side's memory. Its operators may take for granted that elements are aligned.
    [[nodiscard]] bool in_place(const CollectiveSide &side) const {
        const std::size_t alignment = what_.element & (~what_.element + 1);
        return side.range.mapped != nullptr && reinterpret_cast<std::uintptr_t>(side.range.mapped) % alignment == 0;
    }

    [[nodiscard]] std::size_t staged_size(const CollectiveSide &side) const {
        const std::size_t size = in_blocks(what_.kind) ? std::min(side.range.size, bytes_per_block()) : side.range.size;
        return (size + 63) / 64 * 64;
    }

    // The others wait for this process whatever it has: without page-locked memory it takes part with other memory.
    std::byte *staging(std::size_t size) {
        const auto &resources = send_.range.resources != nullptr ? send_.range.resources : recv_.range.resources;
        if (status().ok() && attempt([&] { staging_ = resources->staging().lease(size); })) return staging_.data();
        try {
            return zeros_.emplace(size).data;
        } catch (const std::bad_alloc &) {
            log_error("no memory for the {} bytes that {} needs; the processes that take part would wait for ever",
                      size, record()->far_end);
            PMPI_Abort(line_->comm(), 1);
            throw;
        }
    }

    void load(std::size_t block) {
        Slot &slot = this->slot(block);
        slot.copies.clear();
        slot.tickets.clear();
        if (!staged_in_ || !status().ok()) return;
        const bool wait = blocks_ == 1 && send_.range.waits_for_copies();
        each_piece(send_, block, [&](const Span &piece, std::size_t at) {
            if (send_.range.mapped != nullptr)
                read_mapped(send_.range, piece.offset, piece.size, slot.in + at);
            else
                start_read(slot.copies.emplace_back(), send_.range, piece.offset, piece.size, slot.in + at, wait);
        });
    }

    void store(std::size_t block) {
        Slot &slot = this->slot(block);
        record()->stage_done(Stage::message, slot.posted_ns);
        if (!status().ok()) return;
        record()->moved(in_blocks(what_.kind) ? span(block).size : std::max(send_.range.size, recv_.range.size));
        if (!staged_out_) return;
        const bool wait = blocks_ == 1 && recv_.range.waits_for_copies();
        each_piece(recv_, block, [&](const Span &piece, std::size_t at) {
            if (recv_.range.mapped != nullptr)
                write_mapped(recv_.range, piece.offset, piece.size, slot.out + at);
            else
                start_write(slot.copies.emplace_back(), recv_.range, piece.offset, piece.size, slot.out + at, wait);
        });
    }

    // The pieces of a block, each with its place in the slot's memory.
    template <typename Action>
    void each_piece(const CollectiveSide &side, std::size_t block, const Action &action) const {
        if (side.range.size == 0) return;
        if (in_blocks(what_.kind)) {
            action(span(block), 0);
            return;
        }
        for (const Span &piece : pieces_of(side)) action(piece, piece.offset);
    }

    // Whether the device has done its part for the slot.
    bool copied(Slot &slot) {
        while (!slot.copies.empty()) {
            const Outcome outcome = slot.copies.front().ended();
            if (!outcome) return false;
            record()->stage_done(Stage::device, slot.copies.front().start_ns());
            slot.copies.pop_front();
            if (!outcome->ok()) fail(*outcome);
        }
        return true;
    }

    bool exchanged(Slot &slot) {
        for (const MessageTicket &ticket : slot.tickets) {
            if (!ticket.done) return false;
            if (ticket.error != MPI_SUCCESS) fail(mpi_failure(ticket.error, record()->far_end.c_str()));
        }
        if (records_) take_records(slot);
        return true;
    }

    void post_records(Slot &slot) {
        const int failed = status().ok() ? 0 : 1;
        std::memcpy(head_of(line_->rank()), &failed, sizeof failed);
        call(slot, [&](MPI_Request *request) {
            const auto size = static_cast<int>(records_->size);
            return PMPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, records_memory_, size, MPI_BYTE, line_->comm(),
                                   request);
        });
        asked_ = true;
        asked_ns_ = slot.posted_ns;
        verdict_.done = true;
        line_->leave(this);
    }

    void take_records(const Slot &slot) {
        if (!status().ok()) return;
        const int size = line_->size();
        for (int rank = 0; rank < size; ++rank) {
            int failed = 0;
            std::memcpy(&failed, head_of(rank), sizeof failed);
            failed_somewhere_ = std::max(failed_somewhere_, failed);
        }
        if (failed_somewhere_ != 0) {
            fail_with_others();
            return;
        }
        if (recv_.range.size == 0) return;
        const auto me = static_cast<std::size_t>(line_->rank());
        switch (what_.kind) {
            case CollectiveKind::bcast: std::memcpy(slot.out, record_of(what_.root), what_.bytes); return;
            case CollectiveKind::scatter:
                std::memcpy(slot.out, record_of(what_.root) + me * what_.bytes, what_.bytes);
                return;
            case CollectiveKind::gather:
            case CollectiveKind::allgather:
            case CollectiveKind::alltoall: {
                const std::size_t at = what_.kind == CollectiveKind::alltoall ? me * what_.bytes : 0;
                for (int rank = 0; rank < size; ++rank)
                    std::memcpy(slot.out + static_cast<std::size_t>(rank) * what_.bytes, record_of(rank) + at,
                                what_.bytes);
                return;
            }
            default: break;
        }
        // In the order of the ranks, so that all have the same bits.
        const auto count = static_cast<int>(what_.bytes / what_.element);
        for (int rank = 1; rank < size; ++rank)
            PMPI_Reduce_local(record_of(rank), record_of(0), count, what_.type, what_.op);
        std::size_t before = 0;
        for (std::size_t i = 0; what_.kind == CollectiveKind::reduce_scatter && i < me; ++i) before += what_.counts[i];
        std::memcpy(slot.out, record_of(0) + before * what_.element, recv_.range.size);
    }

    void post(std::size_t block) {
        Slot &slot = this->slot(block);
        slot.posted_ns = now_ns();
        attempt([&] {
            if (records_)
                post_records(slot);
            else if (in_blocks(what_.kind))
                post_block(slot, span(block));
            else
                post_whole(slot);
        });
    }

    // One call of MPI's, which `begin` makes.
    template <typename Begin>
    void call(Slot &slot, const Begin &begin) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = begin(&request);
        driver_.add(code, request, ticket(slot));
    }
    MessageTicket &ticket(Slot &slot) {
        if (slot.tickets.empty()) slot.tickets.resize(1);
        slot.tickets.front().waker = &waker_;
        return slot.tickets.front();
    }

    void post_block(Slot &slot, const Span &block) {
        MPI_Comm const comm = line_->comm();
        const auto count = static_cast<int>(block.size / what_.element);
        std::byte *const in = staged_in_ ? slot.in : slot.in + block.offset;
        std::byte *const out = staged_out_ ? slot.out : slot.out + block.offset;
        const void *const from = in == out ? MPI_IN_PLACE : in;
        call(slot, [&](MPI_Request *request) {
            if (what_.kind == CollectiveKind::bcast)
                return PMPI_Ibcast(is_root() ? in : out, count, what_.type, what_.root, comm, request);
            if (what_.kind == CollectiveKind::allreduce)
                return PMPI_Iallreduce(from, out, count, what_.type, what_.op, comm, request);
            return PMPI_Ireduce(is_root() ? from : in, is_root() ? out : nullptr, count, what_.type, what_.op,
                                what_.root, comm, request);
        });
    }

    void post_whole(Slot &slot) {
        switch (what_.kind) {
            case CollectiveKind::gatherv:
            case CollectiveKind::scatterv:
            case CollectiveKind::allgatherv:
            case CollectiveKind::alltoallv: post_parts(slot); return;
            case CollectiveKind::reduce_scatter: post_reduce_scatter(slot); return;
            default: post_even(slot); return;
        }
    }

    // Parts of equal sizes.
    void post_even(Slot &slot) {
        MPI_Comm const comm = line_->comm();
        const ByteType &part = slot.type.emplace(what_.bytes);
        const int count = part.count();
        MPI_Datatype const type = part.type();
        const std::size_t own = static_cast<std::size_t>(line_->rank()) * what_.bytes;
        const std::byte *in = slot.in;
        std::byte *const out = slot.out;
        if (what_.kind == CollectiveKind::alltoall && in == out) in = copy_of_sent(slot);
        const bool own_in_place = in == out + own && recv_.range.size != 0;
        call(slot, [&](MPI_Request *request) {
            if (what_.kind == CollectiveKind::gather)
                return PMPI_Igather(own_in_place && is_root() ? MPI_IN_PLACE : in, count, type, out, count, type,
                                    what_.root, comm, request);
            if (what_.kind == CollectiveKind::scatter)
                return PMPI_Iscatter(in, count, type, is_root() && out == in + own ? MPI_IN_PLACE : out, count, type,
                                     what_.root, comm, request);
            if (what_.kind == CollectiveKind::allgather)
                return PMPI_Iallgather(own_in_place ? MPI_IN_PLACE : in, count, type, out, count, type, comm, request);
            return PMPI_Ialltoall(in, count, type, out, count, type, comm, request);
        });
    }

    // Parts of sizes that not all processes know: each is a message. They have an order, which is that of the line.
    void post_parts(Slot &slot) {
        const auto size = static_cast<std::size_t>(line_->size());
        const auto me = static_cast<std::size_t>(line_->rank());
        const bool all = what_.kind == CollectiveKind::allgatherv || what_.kind == CollectiveKind::alltoallv;
        const auto root = static_cast<std::size_t>(what_.root);
        const std::byte *in = slot.in;
        if (what_.kind == CollectiveKind::alltoallv && in == slot.out && send_.range.size != 0) in = copy_of_sent(slot);
        // What goes between this process and another; a single part is for, or from, each.
        const auto part = [](const CollectiveSide &side, std::size_t other) {
            return side.parts.empty() ? Span{0, side.range.size} : side.parts[other];
        };
        const auto receives = [&](std::size_t from) {
            return all || (what_.kind == CollectiveKind::gatherv ? me == root : from == root);
        };
        const auto sends = [&](std::size_t to) {
            return all || (what_.kind == CollectiveKind::gatherv ? to == root : me == root);
        };
        slot.tickets.assign(2 * size, MessageTicket{true});
        for (std::size_t i = 0; i < size; ++i) {
            const std::size_t from = (me + i) % size;
            const Span span = part(recv_, from);
            if (!receives(from) || span.size == 0 || from == me) continue;
            slot.tickets[from] = {.waker = &waker_};
            driver_.receive(slot.out + span.offset, span.size, static_cast<int>(from), 0, line_->comm(),
                            slot.tickets[from]);
        }
        for (std::size_t i = 0; i < size; ++i) {
            const std::size_t to = (me + size - i) % size;
            const Span span = part(send_, to);
            if (!sends(to) || span.size == 0) continue;
            if (to == me) {
                const Span own = part(recv_, me);
                if (slot.out + own.offset != in + span.offset)
                    std::memcpy(slot.out + own.offset, in + span.offset, std::min(own.size, span.size));
                continue;
            }
            slot.tickets[size + to] = {.waker = &waker_};
            driver_.send(in + span.offset, span.size, static_cast<int>(to), 0, line_->comm(), slot.tickets[size + to]);
        }
    }

    void post_reduce_scatter(Slot &slot) {
        MPI_Comm const comm = line_->comm();
        const std::size_t all = what_.bytes / what_.element;
        const void *const from = slot.in == slot.out ? MPI_IN_PLACE : slot.in;
        if (all <= largest_int) {
            slot.counts.assign(what_.counts.begin(), what_.counts.end());
            call(slot, [&](MPI_Request *request) {
                return PMPI_Ireduce_scatter(from, slot.out, slot.counts.data(), what_.type, what_.op, comm, request);
            });
            return;
        }
        post_as_reductions(slot);
    }

    // More than MPI counts in one call: a reduction for each process, in blocks.
    void post_as_reductions(Slot &slot) {
        // The first results would lie where others' parts are.
        const std::byte *in = slot.in == slot.out ? copy_of_sent(slot) : slot.in;
        const std::size_t most = bytes_per_block() / what_.element * 64;
        std::size_t calls = 0;
        for (const std::size_t count : what_.counts) calls += (count + most - 1) / most;
        slot.tickets.assign(calls, {});
        std::size_t next = 0;
        for (int root = 0; root < line_->size(); ++root) {
            const std::size_t count = what_.counts[static_cast<std::size_t>(root)];
            for (std::size_t at = 0; at < count; at += most) {
                const std::size_t now = std::min(most, count - at);
                MPI_Request request = MPI_REQUEST_NULL;
                const int code =
                    PMPI_Ireduce(in + at * what_.element, slot.out + at * what_.element, static_cast<int>(now),
                                 what_.type, what_.op, root, line_->comm(), &request);
                slot.tickets[next].waker = &waker_;
                driver_.add(code, request, slot.tickets[next++]);
            }
            in += count * what_.element;
        }
    }

    const std::byte *copy_of_sent(Slot &slot) {
        std::byte *const copy = slot.copy.emplace(send_.range.size).data;
        std::memcpy(copy, slot.in, send_.range.size);
        return copy;
    }

    // All processes tell each other whether they could do their parts; nobody ends before all are here.
    void ask_all() {
        asked_ = true;
        failed_here_ = status().ok() ? 0 : 1;
        asked_ns_ = now_ns();
        MPI_Request request = MPI_REQUEST_NULL;
        const int code =
            PMPI_Iallreduce(&failed_here_, &failed_somewhere_, 1, MPI_INT, MPI_MAX, line_->comm(), &request);
        verdict_.waker = &waker_;
        driver_.add(code, request, verdict_);
        line_->leave(this);
    }

    void end() {
        record()->stage_done(Stage::message, asked_ns_);
        if (verdict_.error != MPI_SUCCESS)
            fail(mpi_failure(verdict_.error, "telling the other processes of a collective command how it went"));
        else if (failed_somewhere_ != 0)
            fail_with_others();
        slots_.clear();
        staging_ = {};
        zeros_.reset();
    }

    void fail_with_others() {
        fail(
            Status::failure(CL_PEER_TRANSFER_FAILED,
                            fmt::format("{}: another process could not do its part: its wait list or its device failed",
                                        record()->far_end)));
    }

    const Collective what_;
    const CollectiveSide send_;
    const CollectiveSide recv_;
    const std::shared_ptr<CollectiveLine> line_;
    MessageDriver &driver_;
    const std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
    Waker waker_;  ///< the same, of the driving thread

    bool begun_ = false;
    bool staged_in_ = false;
    bool staged_out_ = false;
    StagingPool::Lease staging_;
    std::optional<Zeros> zeros_;
    std::vector<Slot> slots_;
    std::optional<Records> records_;
    std::byte *records_memory_ = nullptr;  ///< of all processes, in the order of the ranks
    // How many blocks there are, are being read from the device or have been, were given to MPI, are being written or
    // have been, have been.
    std::size_t blocks_ = 0;
    std::size_t loading_ = 0;
    std::size_t posted_ = 0;
    std::size_t storing_ = 0;
    std::size_t stored_ = 0;

    bool asked_ = false;
    int failed_here_ = 0;
    int failed_somewhere_ = 0;
    MessageTicket verdict_;
    std::uint64_t asked_ns_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_collective(Collective what, CollectiveSide send, CollectiveSide recv,
                                           std::shared_ptr<CollectiveLine> line, MessageDriver &driver) {
    return std::make_unique<CollectiveOperation>(std::move(what), std::move(send), std::move(recv), std::move(line),
                                                 driver);
}

std::shared_ptr<Record> make_record(const Collective &what, const CollectiveSide &send, const CollectiveSide &recv,
                                    const CollectiveLine &line) {
    const std::size_t size = in_blocks(what.kind) ? what.bytes : std::max(send.range.size, recv.range.size);
    return std::make_shared<Record>(Direction::collective,
                                    fmt::format("{} of {} processes", name_of(what.kind), line.size()), size);
}

}  // namespace cldist
