#include "mpi_interop/collective_operations.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "events/failure.hpp"
#include "mpi_interop/collective_check.hpp"
#include "mpi_interop/collective_exchange.hpp"
#include "mpi_interop/collective_records.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "pipeline/cleanup.hpp"

namespace cldist {

namespace {

// Bytes per block and number of blocks in flight (CollectiveTraits::in_blocks). All processes must
// use the same blocks, so the size depends on no setting or device.
constexpr std::size_t block_size = std::size_t{4} << 20U;
constexpr std::size_t depth = 4;

// The bytes that the command moves in this process.
std::size_t bytes_of(const Collective &what, const CollectiveSide &send,
                     const CollectiveSide &recv) {
    return traits_of(what.kind).in_blocks ? what.bytes : std::max(send.range.size, recv.range.size);
}

// Zeroed host memory. The system allocates only pages that are touched.
struct Zeros {
    explicit Zeros(std::size_t size)
        : data(static_cast<std::byte *>(std::calloc(std::max<std::size_t>(size, 1), 1))) {
        if (data == nullptr) throw std::bad_alloc();
    }
    Zeros(const Zeros &) = delete;
    Zeros &operator=(const Zeros &) = delete;
    ~Zeros() { std::free(data); }
    std::byte *const data;
};

class CollectiveOperation final : public Operation {
public:
    CollectiveOperation(Collective what, CollectiveSide send, CollectiveSide recv,
                        std::shared_ptr<CollectiveLine> line, MessageDriver &driver,
                        std::unique_ptr<OrderedCollective> ordered, CollectiveWork *work)
        : Operation(make_record(what, send, recv, *line)),
          what_(std::move(what)),
          send_(std::move(send)),
          recv_(std::move(recv)),
          line_(std::move(line)),
          driver_(driver),
          number_(line_->add(record(), [this] { return text_of(summary_of(what_)); })),
          devices_(line_->devices()),
          ordered_(std::move(ordered)) {
        if (devices_ != nullptr) {
            if (ordered_ != nullptr) {
                ordered_->number = number_;
                devices_->enter(number_, *work, ordered_->queue);
            } else {
                CollectiveWork not_used = devices_->plan(what_, send_, recv_);
                devices_->enter(number_, not_used, nullptr);
            }
        }
        line_->enter(this, [turn = turn_] {
            const std::lock_guard lock(turn->mutex);
            if (turn->waker) turn->waker();
        });
    }
    ~CollectiveOperation() override {
        line_->leave(this);
        line_->remove(number_);
        if (devices_ != nullptr) devices_->leave(number_);
        release_later(std::move(send_.range.buffer));
        release_later(std::move(recv_.range.buffer));
    }

    void announce() override {
        if (devices_ == nullptr || announced_) return;
        const bool may_post = ordered_ == nullptr || ordered_->command.may_post();
        announced_ =
            may_post && devices_->announce(number_, ordered_ != nullptr, what_, part_sizes());
    }

    void woken_by(const Waker &waker) override {
        const std::lock_guard lock(turn_->mutex);
        turn_->waker = waker;
    }

    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        start_ns_ = now_ns();
        const std::lock_guard lock(turn_->mutex);
        waker_ = turn_->waker;
    }

    void abandon(const Status &status) override {
        if (ordered_ == nullptr) return;
        end_job(fmt::format("{}\n  {}", status.message, describe(*record(), now_ns())),
                "because a kernel of this collective is in a queue, and a kernel cannot fail "
                "(CLDIST_PATH=device)");
    }

    Progress poll() override {
        if (ordered_ != nullptr && ordered_->command.failed()) {
            fail(OrderedCommand::failure());
            abandon(status());
        }
        if (released_) return ordered_->command.ended() ? Progress::done : Progress::idle;
        if (!begun_) {
            announce();
            if (devices_ != nullptr && !announced_) return Progress::idle;
            if (ordered_ != nullptr) {
                if (!ordered_->on_devices) decide();
                if (ordered_->on_devices.value_or(false)) return poll_kernel();
                if (!ordered_->on_devices || !ordered_->command.started()) return Progress::idle;
            }
            if (!line_->is_first(this)) return Progress::idle;
            const Outcome ready = line_->ready();
            if (!ready) return Progress::idle;
            if (!ready->ok()) return refuse(*ready);
            if (line_->compares_calls()) {
                const Outcome same = compare_calls();
                if (!same) return Progress::idle;
                if (!same->ok()) return refuse(*same);
            }
            begin();
        }
        const std::size_t before = loading_ + posted_ + storing_ + stored_;
        bool moved = false;
        while (loading_ < blocks_ && loading_ < stored_ + slots_.size()) load(loading_++);
        while (posted_ < loading_ && copied(slot(posted_)) && post(posted_)) ++posted_;
        if (posted_ == blocks_ && !asked_) ask_all();
        for (std::size_t block = storing_; block < posted_; ++block)
            moved |= moves(slot(block).exchange);
        if (asked_) moved |= moves(verdict_);
        while (storing_ < posted_ && exchanged(slot(storing_))) store(storing_++);
        while (stored_ < storing_ && copied(slot(stored_))) ++stored_;
        if (stored_ == blocks_ && asked_ && verdict_.poll()) {
            end();
            if (ordered_ == nullptr) return Progress::done;
            if (!status().ok()) abandon(status());
            ordered_->command.release();
            released_ = true;
            return Progress::moved;
        }
        return moved || loading_ + posted_ + storing_ + stored_ != before ? Progress::moved
                                                                          : Progress::idle;
    }

    [[nodiscard]] bool bytes_in_flight() const override {
        return begun_ || check_ != nullptr ||
               (ordered_ != nullptr && ordered_->on_devices.value_or(false));
    }
    [[nodiscard]] bool wakes() const override {
        const std::lock_guard lock(turn_->mutex);
        if (!turn_->waker || ordered_ != nullptr || (devices_ != nullptr && !announced_))
            return false;
        if (!begun_) return !line_->is_first(this);
        // MPI wakes the operation at the end of messages, but the device does not wake it.
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
        std::byte *scratch = nullptr;
        std::deque<DeviceCommand> copies;
        CollectiveExchange exchange;
        std::optional<Zeros> copy;
        std::uint64_t posted_ns = 0;
    };

    static bool moves(CollectiveExchange &exchange) {
        exchange.poll();
        return exchange.moved();
    }

    // Finds out whether kernels carry out the command. If so, lets this process's kernel start.
    void decide() {
        if (!attempt([&] { ordered_->on_devices = devices_->decision(number_, what_); }))
            abandon(status());
        if (ordered_->on_devices.value_or(false)) ordered_->command.go();
    }

    // No process moves data.
    Progress refuse(const Status &why) {
        fail(why);
        abandon(why);
        line_->leave(this);
        return Progress::done;
    }

    Progress poll_kernel() {
        if (!ordered_->command.ended()) return Progress::idle;
        const std::size_t size = bytes_of(what_, send_, recv_);
        record()->chosen(Path::device, std::max<std::size_t>(size, 1), 1);
        record()->stage_done(Stage::device, start_ns_);
        record()->moved(size);
        line_->leave(this);
        return Progress::done;
    }

    Outcome compare_calls() {
        if (check_ == nullptr)
            check_ = std::make_unique<CollectiveCheck>(what_, part_sizes(), number_, line_, driver_,
                                                       waker_);
        return check_->poll();
    }
    // By rank. Empty for collectives without sizes per process.
    [[nodiscard]] std::vector<PartSizes> part_sizes() const {
        std::vector<PartSizes> all;
        for (int i = 0; traits_of(what_.kind).has_sizes && i < line_->size(); ++i)
            all.push_back({given_to(what_, send_, line_->rank(), i).size,
                           got_from(what_, recv_, line_->rank(), i).size});
        return all;
    }

    Slot &slot(std::size_t block) { return slots_[block % slots_.size()]; }
    [[nodiscard]] std::size_t bytes_per_block() const {
        return std::max(block_size / what_.element, std::size_t{1}) * what_.element;
    }
    // The range of a block in both sides.
    [[nodiscard]] Span span(std::size_t block) const {
        const std::size_t offset = block * bytes_per_block();
        return {offset, std::min(bytes_per_block(), what_.bytes - offset)};
    }
    [[nodiscard]] bool is_root() const { return what_.root == line_->rank(); }

    void begin() {
        begun_ = true;
        blocks_ = 1;
        if (traits_of(what_.kind).in_blocks)
            blocks_ = (what_.bytes + bytes_per_block() - 1) / bytes_per_block();
        if (what_.kind == CollectiveKind::barrier) blocks_ = 0;
        slots_ = std::vector<Slot>(std::min(blocks_, depth));
        if (blocks_ == 1) records_ = records_of(what_, static_cast<std::size_t>(line_->size()));
        if (records_) return begin_with_records();
        check_operator();
        staged_in_ = !status().ok() || !in_place(send_);
        staged_out_ = !status().ok() || !in_place(recv_);
        const std::size_t in = staged_in_ ? staged_size(send_) : 0;
        const std::size_t out = staged_out_ ? staged_size(recv_) : 0;
        const std::size_t scratch = blocks_ == 0 ? 0 : (rounds(0).scratch + 63) / 64 * 64;
        const std::size_t each = in + out + scratch;
        std::byte *memory = nullptr;
        if (each * slots_.size() != 0) memory = staging(each * slots_.size());
        for (Slot &slot : slots_) {
            slot.in = staged_in_ ? memory : send_.range.mapped;
            slot.out = staged_out_ ? memory + in : recv_.range.mapped;
            slot.scratch = memory + in + out;
            if (memory != nullptr) memory += each;
        }
        const bool copies =
            (staged_in_ && send_.range.size != 0) || (staged_out_ && recv_.range.size != 0);
        record()->chosen(copies ? Path::chunked : Path::mapped,
                         traits_of(what_.kind).in_blocks ? std::min(bytes_per_block(), what_.bytes)
                                                         : what_.bytes,
                         static_cast<unsigned>(std::max<std::size_t>(slots_.size(), 1)));
    }

    // If MPI does not allow the operator for the datatype, MPI_Reduce_local ends the program. This
    // call reports the error instead.
    void check_operator() {
        if (what_.op == MPI_OP_NULL || combinable(what_.type, what_.op)) return;
        const Zeros from(what_.element);
        const Zeros to(what_.element);
        static std::mutex one_at_a_time;
        const std::lock_guard lock(one_at_a_time);
        const int code = PMPI_Allreduce(from.data, to.data, 1, what_.type, what_.op, line_->self());
        if (code != MPI_SUCCESS) fail(mpi_failure(code, traits_of(what_.kind).name));
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
        record()->chosen(copies ? Path::chunked : Path::mapped, what_.bytes, 1);
    }
    // The data in a process's record.
    [[nodiscard]] std::byte *record_of(int rank) const {
        return records_memory_ + records_->size * static_cast<std::size_t>(rank) + Records::head;
    }
    [[nodiscard]] std::byte *head_of(int rank) const { return record_of(rank) - Records::head; }

    // Returns true if MPI can use the side's memory. Operators may require aligned elements.
    [[nodiscard]] bool in_place(const CollectiveSide &side) const {
        const std::size_t alignment = what_.element & (~what_.element + 1);
        return side.range.mapped != nullptr &&
               reinterpret_cast<std::uintptr_t>(side.range.mapped) % alignment == 0;
    }

    [[nodiscard]] std::size_t staged_size(const CollectiveSide &side) const {
        const std::size_t size = traits_of(what_.kind).in_blocks
                                     ? std::min(side.range.size, bytes_per_block())
                                     : side.range.size;
        return (size + 63) / 64 * 64;
    }

    // The other processes wait for this process. Without page-locked memory, or after a failure, it
    // therefore takes part with pageable memory.
    std::byte *staging(std::size_t size) {
        const auto &resources =
            send_.range.resources != nullptr ? send_.range.resources : recv_.range.resources;
        if (status().ok() && attempt([&] { staging_ = resources->staging().lease(size); }))
            return staging_.get();
        try {
            return zeros_.emplace(size).data;
        } catch (const std::bad_alloc &) {
            log_error(
                "no memory for the {} bytes that {} needs; the processes that take part would wait "
                "forever",
                size, record()->far_end);
            PMPI_Abort(line_->comm(), 1);
            throw;
        }
    }

    void load(std::size_t block) {
        Slot &slot = this->slot(block);
        slot.copies.clear();
        if (!staged_in_ || !status().ok()) return;
        copy_pieces(send_, block, slot.in, read_mapped, start_read);
    }

    void store(std::size_t block) {
        Slot &slot = this->slot(block);
        record()->stage_done(Stage::message, slot.posted_ns);
        if (!status().ok()) return;
        record()->moved(traits_of(what_.kind).in_blocks
                            ? span(block).size
                            : std::max(send_.range.size, recv_.range.size));
        if (!staged_out_) return;
        copy_pieces(recv_, block, slot.out, write_mapped, start_write);
    }

    // Copies the pieces of a block between the side and the slot's `memory`, with `copy` if the
    // side is mapped.
    template <typename Copy, typename Enqueue>
    void copy_pieces(const CollectiveSide &side, std::size_t block, std::byte *memory, Copy copy,
                     Enqueue enqueue) {
        const DeviceRange &range = side.range;
        if (range.size == 0) return;
        const bool wait = blocks_ == 1 && range.waits_for_copies();
        const auto copy_piece = [&](const Span &piece, std::size_t at) {
            if (range.mapped != nullptr)
                copy(range, piece.offset, piece.size, memory + at);
            else
                enqueue(slot(block).copies.emplace_back(), range, piece.offset, piece.size,
                        memory + at, wait);
        };
        if (traits_of(what_.kind).in_blocks)
            copy_piece(span(block), 0);
        else
            for (const Span &piece : pieces_of(side.parts, range.size))
                copy_piece(piece, piece.offset);
    }

    // Returns true if the device has finished its copies for the slot.
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
        if (!slot.exchange.poll()) return false;
        if (!slot.exchange.status().ok()) fail(slot.exchange.status());
        if (records_) end_records(slot);
        return true;
    }

    bool begin_exchange(CollectiveExchange &exchange, Rounds rounds,
                        const CollectiveExchange::Memory &memory,
                        const CollectiveExchange::Combination &combination = {}) {
        return exchange.begin(std::move(rounds), memory, combination, line_, driver_, waker_);
    }

    bool post_records(Slot &slot) {
        const int own = agreement();
        std::memcpy(head_of(line_->rank()), &own, sizeof own);
        if (!begin_exchange(slot.exchange, record_rounds(me(), records_->size),
                            {.scratch = records_memory_}))
            return false;
        asked_ = true;
        asked_ns_ = slot.posted_ns;
        line_->leave(this);
        return true;
    }

    void end_records(const Slot &slot) {
        if (!status().ok()) return;
        const int size = line_->size();
        failure_ = agreement();
        for (int rank = 0; rank < size; ++rank) {
            int theirs = 0;
            std::memcpy(&theirs, head_of(rank), sizeof theirs);
            failure_ = std::max(failure_, theirs);
        }
        if (!take_agreement()) return;
        if (recv_.range.size != 0)
            take_records(what_, me(), *records_, record_of(0), {slot.out, recv_.range.size});
    }

    // Posts the block's messages. Returns false if too many exchanges are in flight.
    bool post(std::size_t block) {
        Slot &slot = this->slot(block);
        slot.posted_ns = now_ns();
        if (records_) return post_records(slot);
        const std::size_t at = traits_of(what_.kind).in_blocks ? span(block).offset : 0;
        CollectiveExchange::Memory memory{staged_in_ ? slot.in : slot.in + at,
                                          staged_out_ ? slot.out : slot.out + at, slot.scratch};
        const CollectiveTraits &kind = traits_of(what_.kind);
        if (kind.gives_parts && kind.gets_parts && memory.in == memory.out && send_.range.size != 0)
            memory.in = copy_of_sent(slot);
        // After a failure the process does not combine, because no process uses the result.
        return begin_exchange(slot.exchange, rounds(block), memory,
                              {what_.type, status().ok() ? what_.op : MPI_OP_NULL, what_.element});
    }

    [[nodiscard]] Member me() const { return {line_->rank(), line_->size()}; }

    [[nodiscard]] Rounds rounds(std::size_t block) const {
        // Kernels combine in this order, and the result must not depend on who combines.
        const bool in_rank_order = devices_ != nullptr && devices_->agreed();
        switch (what_.kind) {
            case CollectiveKind::barrier: return {};
            case CollectiveKind::bcast: return broadcast_rounds(me(), what_.root, span(block).size);
            case CollectiveKind::reduce:
                return reduce_rounds(me(), what_.root, span(block).size, what_.element,
                                     in_rank_order);
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
            me(), [this](int to) { return given_to(what_, send_, line_->rank(), to); },
            [this](int from) { return got_from(what_, recv_, line_->rank(), from); });
    }

    std::byte *copy_of_sent(Slot &slot) {
        std::byte *const copy = slot.copy.emplace(send_.range.size).data;
        std::memcpy(copy, slot.in, send_.range.size);
        return copy;
    }

    // Exchanges the status of all processes. No process ends before all have started.
    void ask_all() {
        failure_ = agreement();
        CollectiveExchange::Memory memory;
        memory.out = reinterpret_cast<std::byte *>(&failure_);
        memory.scratch = reinterpret_cast<std::byte *>(failures_.data());
        if (!begin_exchange(verdict_, agreement_rounds(me()), memory,
                            {MPI_INT, MPI_MAX, sizeof(int)}))
            return;
        asked_ = true;
        asked_ns_ = now_ns();
        line_->leave(this);
    }

    void end() {
        record()->stage_done(Stage::message, asked_ns_);
        if (!verdict_.status().ok())
            fail(verdict_.status());
        else
            take_agreement();
        slots_.clear();
        staging_ = StagingPool::Lease();
        zeros_.reset();
    }

    // What a process reports in each collective of the hosts. The maximum of all processes applies.
    enum Agreement : int { devices_ready, success, failure };
    [[nodiscard]] Agreement agreement() const {
        if (!status().ok()) return failure;
        return devices_ != nullptr && devices_->prepared() ? devices_ready : success;
    }
    // Applies the maximum. Returns false if some process has failed.
    bool take_agreement() {
        if (failure_ == devices_ready && devices_ != nullptr) devices_->activate();
        if (failure_ != failure) return true;
        fail(
            Status::failure(CL_PEER_TRANSFER_FAILED,
                            fmt::format("{}: the wait list or the device of another process failed",
                                        record()->far_end)));
        return false;
    }

    const Collective what_;
    CollectiveSide send_;
    CollectiveSide recv_;
    const std::shared_ptr<CollectiveLine> line_;
    MessageDriver &driver_;
    const std::uint64_t number_;        ///< position in the line
    DeviceCollectives *const devices_;  ///< null: kernels carry out no command of the line
    const std::unique_ptr<OrderedCollective> ordered_;
    bool announced_ = false;
    bool released_ = false;  ///< the host has moved the bytes; the kernel still has to end
    std::uint64_t start_ns_ = 0;
    const std::shared_ptr<Turn> turn_ = std::make_shared<Turn>();
    Waker waker_;  ///< copy of turn_->waker for the driving thread

    std::unique_ptr<CollectiveCheck> check_;
    bool begun_ = false;
    bool staged_in_ = false;
    bool staged_out_ = false;
    StagingPool::Lease staging_;
    std::optional<Zeros> zeros_;
    std::vector<Slot> slots_;
    std::optional<Records> records_;
    std::byte *records_memory_ = nullptr;  ///< records of all processes, in the order of the ranks
    // The number of blocks, and how many of them have passed each step: copy from the device
    // started, messages posted, copy to the device started, done.
    std::size_t blocks_ = 0;
    std::size_t loading_ = 0;
    std::size_t posted_ = 0;
    std::size_t storing_ = 0;
    std::size_t stored_ = 0;

    bool asked_ = false;
    int failure_ = success;           ///< an Agreement
    std::array<int, 32> failures_{};  ///< for the rounds of `verdict_`
    CollectiveExchange verdict_;
    std::uint64_t asked_ns_ = 0;
};

}  // namespace

std::unique_ptr<Operation> make_collective(
    Collective what, CollectiveSide send, CollectiveSide recv, std::shared_ptr<CollectiveLine> line,
    MessageDriver &driver, std::unique_ptr<OrderedCollective> ordered, CollectiveWork *work) {
    return std::make_unique<CollectiveOperation>(std::move(what), std::move(send), std::move(recv),
                                                 std::move(line), driver, std::move(ordered), work);
}

std::shared_ptr<Record> make_record(const Collective &what, const CollectiveSide &send,
                                    const CollectiveSide &recv, const CollectiveLine &line) {
    return std::make_shared<Record>(
        Direction::collective,
        fmt::format("{} of {} processes", traits_of(what.kind).name, line.size()),
        bytes_of(what, send, recv));
}

}  // namespace cldist
