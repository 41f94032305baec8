#include "mpi_interop/message_operations.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "base/log.hpp"
#include "mpi_interop/host_links.hpp"
#include "mpi_interop/message_endpoint.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/wire.hpp"
#include "pipeline/place_trial.hpp"

namespace cldist {
namespace {

// Sends and receives consist of a few sequential steps. Each step is polled until it ends.
class MessageOperation : public Operation {
public:
    MessageOperation(std::shared_ptr<Record> record, DeviceRange range, MessagePeer peer, MessageDriver &driver)
        : Operation(std::move(record)),
          range_(std::move(range)),
          peer_(std::move(peer)),
          plain_(peer_.comm->wire() == Wire::plain),
          driver_(driver) {}

    void woken_by(const Waker &waker) override {
        waker_ = waker;
        ticket_.waker = &waker_;
    }

    Progress poll() override {
        bool moved = false;
        const bool well = attempt([&] {
            while (!ended_ && step()) moved = true;
        });
        if (!well) ended_ = true;
        if (ended_) return Progress::done;
        return moved ? Progress::moved : Progress::idle;
    }

protected:
    /// Returns true if there was progress.
    virtual bool step() = 0;

    bool end() {
        ended_ = true;
        return true;
    }
    [[nodiscard]] Situation situation(int rank) const {
        const bool same_host = peer_.comm->same_host(rank);
        return {range_.host_memory(),
                range_.mapped != nullptr,
                same_host,
                range_.strided.has_value(),
                range_.resources == nullptr || range_.copied,
                range_.resources == nullptr ? nullptr : range_.resources->advice(message_route(same_host))};
    }
    /// Returns true if the payload can be sent from the range or received into it.
    [[nodiscard]] bool in_place() const { return range_.mapped != nullptr && !range_.strided; }
    /// The path of a message in one piece.
    [[nodiscard]] Path path_of_whole() const {
        return range_.mapped != nullptr && !range_.copied ? Path::mapped : Path::pinned;
    }
    /// Memory for a message of `size` bytes. It is page-locked if its payload is copied to or from a device.
    std::byte *message_memory(std::size_t size) {
        if (range_.copied) return range_.mapped - header_size;
        if (range_.mapped != nullptr) {
            memory_ = std::make_unique_for_overwrite<std::byte[]>(size);
            return memory_.get();
        }
        staging_ = range_.resources->staging().lease(size);
        return staging_.data();
    }
    std::unique_ptr<Endpoint> message_end(Direction direction, const BlockPeer &peer, const Plan &plan) {
        return std::make_unique<MessageEndpoint>(driver_, direction, peer, plan, record(), waker_);
    }
    /// Keeps the status of a step if it failed.
    void note(const Status &status) {
        if (!status.ok()) fail(status);
    }

    [[nodiscard]] bool has_waker() const { return static_cast<bool>(waker_); }

    DeviceRange range_;
    const MessagePeer peer_;
    const bool plain_;  ///< the message has no header, and is in place if the range is mapped
    MessageDriver &driver_;
    MessageTicket ticket_;  ///< of the header, or of a message in one piece

private:
    Waker waker_;

    std::unique_ptr<std::byte[]> memory_;
    StagingPool::Lease staging_;
    bool ended_ = false;
};

class SendOperation final : public MessageOperation {
public:
    SendOperation(std::shared_ptr<Record> record, DeviceRange range, MessagePeer peer, MessageDriver &driver,
                  Channels &channels, bool synchronous)
        : MessageOperation(std::move(record), std::move(range), std::move(peer), driver),
          channels_(channels),
          synchronous_(synchronous) {}

    ~SendOperation() override {
        if (turn_taken_) message_order().leave_turn(turn());
        if (channel_) channels_.release(*channel_);
    }

    void announce() override {
        if (peer_.rank != MPI_PROC_NULL) take_turn();
    }

    void start(const Status &gate) override {
        note(gate);
        if (peer_.rank == MPI_PROC_NULL) {
            step_ = Step::nothing;
            return;
        }
        if (!gate.ok()) {
            send_notice();
            return;
        }
        try {
            if (plain_)
                start_plain();
            else
                start_with_header();
        } catch (const Error &error) {
            fail(error.status());
            send_notice();
        }
    }

    [[nodiscard]] bool bytes_in_flight() const override { return step_ != Step::nothing; }
    [[nodiscard]] bool wakes() const override {
        return has_waker() && posted_ &&
               (step_ == Step::message || (step_ == Step::blocks && !near_ && !blocks_->device_busy()));
    }

private:
    enum class Step { nothing, read, message, blocks };

    bool step() override {
        switch (step_) {
            case Step::nothing: return end();
            case Step::read: {
                const Outcome outcome = read_.ended();
                if (!outcome) return false;
                note(*outcome);
                if (!outcome->ok()) {
                    send_notice();
                    return true;
                }
                record()->stage_done(Stage::device, read_.start_ns());
                if (plain_)
                    send_message(whole_, range_.size);
                else
                    send_inlined();
                return true;
            }
            case Step::message:
                if (!posted_) return try_post();
                if (!ticket_.done) return false;
                take_message_result();
                if (status().ok()) record()->moved(range_.size);
                return end();
            case Step::blocks: {
                const bool posted = !posted_ && try_post();
                if (!blocks_ && !begin_blocks()) return posted;
                const Progress progress = blocks_->poll();
                if (progress != Progress::done || !posted_ || !ticket_.done)
                    return posted || progress == Progress::moved;
                take_message_result();
                note(blocks_->status());
                if (status().ok()) trial_.ended(*blocks_, plan_.block);
                return end();
            }
        }
        return false;
    }

    void start_with_header() {
        if (range_.copied) {
            record()->chosen(Path::pinned, range_.size, 1);
            whole_ = message_memory(header_size + range_.size);
            send_inlined();
            return;
        }
        Situation with_peer = situation(peer_.rank);
        // Between CPU devices MPI's single copy in host memory is as fast as a ring.
        const bool worth_it =
            range_.resources != nullptr || config().path != Path::automatic || DeviceResources::some_have_own_memory();
        with_peer.ring = worth_it && peer_.comm->links().reach(peer_.comm->world_rank(peer_.rank));
        with_peer.exports = range_.resources != nullptr && range_.resources->exports();
        with_peer.in_place = trial_.chooses_place(range_, with_peer);
        plan_ = plan_send(range_.size, with_peer, config());
        in_place_ = with_peer.in_place;
        fit_ring(plan_, range_.size);
        if (plan_.path == Path::shared || plan_.path == Path::direct) {
            near_ = peer_.comm->links().open(peer_.comm->world_rank(peer_.rank), range_, plan_);
            if (!near_) {
                with_peer.ring = false;
                plan_ = plan_send(range_.size, with_peer, config());
            }
        }
        record()->chosen(plan_.path, plan_.block, plan_.depth);
        if (plan_.inlined)
            start_inlined();
        else
            start_blocks();
    }

    void start_inlined() {
        if (range_.size == 0) {
            encode({}, header_.data());
            send_message(header_.data(), header_size);
            return;
        }
        whole_ = message_memory(header_size + range_.size);
        if (range_.mapped != nullptr) {
            const std::uint64_t start = now_ns();
            read_mapped(range_, 0, range_.size, whole_ + header_size);
            record()->stage_done(Stage::device, start);
            send_inlined();
            return;
        }
        read_payload(whole_ + header_size);
    }

    void start_plain() {
        record()->chosen(path_of_whole(), std::max<std::size_t>(range_.size, 1), 1);
        if (range_.size == 0 || in_place()) {
            send_message(range_.mapped, range_.size);
            return;
        }
        whole_ = message_memory(range_.size);
        if (range_.mapped != nullptr) {
            read_mapped(range_, 0, range_.size, whole_);
            send_message(whole_, range_.size);
            return;
        }
        read_payload(whole_);
    }

    void read_payload(std::byte *to) {
        take_turn();
        start_read(read_, range_, 0, range_.size, to, range_.waits_for_copies());
        step_ = Step::read;
    }

    void start_blocks() {
        channel_ = channels_.acquire();
        const NearOffer offer = near_ ? near_->offer() : NearOffer{};
        encode({range_.size, plan_.block, static_cast<std::uint32_t>(*channel_), CL_SUCCESS, in_place_ ? 1U : 0U,
                offer.ring, offer.depth, offer.exported, offer.whole, 0, offer.offset},
               header_.data());
        begin_blocks();
        send_message(header_.data(), header_size);
        step_ = Step::blocks;
    }

    // Returns false until the receiver has answered how it can receive the blocks.
    bool begin_blocks() {
        if (near_) {
            const std::optional<bool> settled = peer_.comm->links().settled(*near_);
            if (!settled) return false;
            if (*settled) {
                plan_ = near_->plan();
                record()->chosen(plan_.path, plan_.block, plan_.depth);
                auto far_end = near_->far_end(peer_.rank, Direction::send, range_.size, record());
                blocks_.emplace(range_, Direction::send, range_.size, plan_, std::move(far_end), record(), Status{},
                                near_->place());
                return true;
            }
            near_.reset();
            plan_ = plan_recv(range_.size, plan_.block, situation(peer_.rank), config());
            record()->chosen(plan_.path, plan_.block, plan_.depth);
        }
        const BlockPeer peer{peer_.comm->block_comm(), peer_.comm->block_rank(peer_.rank), *channel_};
        blocks_.emplace(range_, Direction::send, range_.size, plan_, message_end(Direction::send, peer, plan_),
                        record());
        return true;
    }

    // The payload is already behind the space for the header.
    void send_inlined() {
        encode({range_.size, 0, 0, CL_SUCCESS}, whole_);
        send_message(whole_, header_size + range_.size);
    }

    // Sends an error message: the receiver gets no payload.
    void send_notice() {
        if (plain_) {
            give_up();
            return;
        }
        encode({0, 0, 0, status().code}, header_.data());
        send_message(header_.data(), header_size);
    }

    // A receiver of plain messages would mistake an error message for the payload.
    void give_up() {
        log_warning(
            "a send to rank {} with tag {} sends nothing, because it failed: {}: {}. On a communicator with plain "
            "messages the receiver gets no error message. Its receive stays pending or matches the next message",
            peer_.rank, peer_.tag, status().message, code_text(status().code));
        if (std::exchange(turn_taken_, false)) message_order().leave_turn(turn());
        step_ = Step::nothing;
    }

    void send_message(const std::byte *data, std::size_t size) {
        message_ = {data, size};
        step_ = Step::message;
        try_post();
    }

    void take_turn() {
        if (std::exchange(turn_taken_, true)) return;
        message_order().take_turn(turn());
    }

    // Messages leave in the order in which their commands started, regardless of how long their copies take.
    bool try_post() {
        if (!message_order().may_post(turn())) {
            take_turn();
            return false;
        }
        posted_ = true;
        if (peer_.comm->freed()) {
            ticket_.done = true;
            fail(Status::failure(CL_INVALID_COMMUNICATOR, "the communicator was freed before the command started"));
            return true;
        }
        message_start_ns_ = now_ns();
        driver_.send(message_.data(), message_.size(), peer_.rank, peer_.tag, peer_.comm->handle(), ticket_,
                     synchronous_);
        if (std::exchange(turn_taken_, false)) message_order().leave_turn(turn());
        return true;
    }

    [[nodiscard]] SendTurn turn() const { return {peer_.comm.get(), peer_.rank, peer_.tag, this}; }

    void take_message_result() {
        if (ticket_.error != MPI_SUCCESS)
            fail(mpi_failure(ticket_.error, "MPI_Isend"));
        else
            record()->stage_done(Stage::message, message_start_ns_);
    }

    Channels &channels_;
    const bool synchronous_;
    Plan plan_;
    PlaceTrial trial_;
    bool in_place_ = false;
    Step step_ = Step::nothing;
    std::optional<int> channel_;
    std::array<std::byte, header_size> header_{};
    std::span<const std::byte> message_;  ///< the header and, if inlined, the payload
    bool turn_taken_ = false;
    bool posted_ = false;
    std::uint64_t message_start_ns_ = 0;
    std::byte *whole_ = nullptr;  ///< message in one piece: the payload, after the space for the header if not plain
    DeviceCommand read_;
    std::optional<NearWay> near_;  ///< without it the blocks use MPI
    std::optional<BlockTransfer> blocks_;
};

class RecvOperation final : public MessageOperation {
public:
    RecvOperation(std::shared_ptr<Record> record, DeviceRange range, MessagePeer peer, MessageDriver &driver,
                  std::optional<MatchedMessage> found)
        : MessageOperation(std::move(record), std::move(range), std::move(peer), driver) {
        if (!found) return;
        match_.message = std::move(*found);
        match_.done = true;
        step_ = Step::match;
    }

    ~RecvOperation() override {
        if (step_ == Step::match) message_order().forget(match_);
    }

    void woken_by(const Waker &waker) override {
        MessageOperation::woken_by(waker);
        message_order().wake_by(match_, waker);
    }

    void announce() override {
        if (step_ == Step::match || peer_.rank == MPI_PROC_NULL || peer_.comm->freed()) return;
        match_.pattern = {peer_.comm, peer_.rank, peer_.tag};
        driver_.match(match_);
        step_ = Step::match;
    }

    void start(const Status &gate) override {
        note(gate);
        start_ns_ = now_ns();
        if (step_ == Step::match) return;
        if (peer_.rank == MPI_PROC_NULL) {
            record()->matched(MPI_PROC_NULL, MPI_ANY_TAG, 0);
            return;
        }
        if (peer_.comm->freed()) {
            fail(Status::failure(CL_INVALID_COMMUNICATOR, "the communicator was freed before the command started"));
            return;
        }
        announce();
    }

    void cancel() override {
        if (step_ != Step::match) return;
        message_order().forget(match_);
        if (match_.done) return;
        step_ = Step::nothing;
        fail(Status::failure(CL_TRANSFER_CANCELLED, "the receive was cancelled"));
    }

    [[nodiscard]] bool bytes_in_flight() const override { return step_ != Step::nothing && step_ != Step::match; }
    [[nodiscard]] bool wakes() const override {
        return has_waker() && (step_ == Step::match || step_ == Step::message ||
                               (step_ == Step::blocks && !near_ && !blocks_->device_busy()));
    }

private:
    enum class Step { nothing, match, message, write, blocks, rest };

    bool step() override {
        switch (step_) {
            case Step::nothing: return end_or_read_rest();
            case Step::match:
                if (!match_.done) return false;
                take_match();
                return true;
            case Step::message:
                if (!ticket_.done) return false;
                take_message();
                return true;
            case Step::write: {
                const Outcome outcome = write_.ended();
                if (!outcome) return false;
                note(*outcome);
                record()->stage_done(Stage::device, write_.start_ns());
                if (status().ok()) record()->moved(size_);
                return end();
            }
            case Step::blocks: {
                const Progress progress = blocks_->poll();
                if (progress != Progress::done) return progress == Progress::moved;
                note(blocks_->status());
                return end_or_read_rest();
            }
            case Step::rest: {
                const Outcome outcome = rest_.ended();
                if (!outcome) return false;
                note(*outcome);
                return end();
            }
        }
        return false;
    }

    // A message may be shorter than its receive, but all of the staging memory is copied back. This reads the rest from
    // the device first.
    bool end_or_read_rest() {
        if (!range_.copied || size_ >= range_.size || !status().ok()) return end();
        start_read(rest_, range_, size_, range_.size - size_, range_.mapped + size_, false);
        step_ = Step::rest;
        return true;
    }

    void take_match() {
        record()->stage_done(Stage::match, start_ns_);
        const MatchedMessage &message = match_.message;
        if (message.error != MPI_SUCCESS) {
            step_ = Step::nothing;
            fail(mpi_failure(message.error, "MPI_Improbe"));
            return;
        }
        const std::size_t header = plain_ ? 0 : header_size;
        size_ = message.bytes > header ? message.bytes - header : 0;
        record()->matched(message.source, message.tag, size_);
        if (plain_) note_if_truncated();
        start_ns_ = now_ns();
        step_ = Step::message;
        if (!message.content.empty()) {
            memory_ = message.content.data();
            ticket_.done = true;
            ticket_.bytes = message.bytes;
            return;
        }
        std::byte *memory = memory_for(message.bytes);
        memory_ = memory;
        driver_.receive(memory, message.bytes, match_.message, ticket_);
    }

    // A message that does not match this receive may have any size.
    std::byte *memory_for(std::size_t bytes) {
        if (size_ != 0 && size_ <= range_.size && status().ok()) {
            try {
                return plain_ && in_place() ? range_.mapped : message_memory(bytes);
            } catch (const Error &error) {
                fail(error.status());
            }
        }
        other_memory_ = std::make_unique_for_overwrite<std::byte[]>(std::max(bytes, header_size));
        return other_memory_.get();
    }

    void take_message() {
        step_ = Step::nothing;
        if (ticket_.error != MPI_SUCCESS) {
            fail(mpi_failure(ticket_.error, "MPI_Imrecv"));
            return;
        }
        record()->stage_done(Stage::message, start_ns_);
        if (plain_) {
            take_payload(memory_);
            return;
        }
        const auto header = decode(std::span(memory_, ticket_.bytes));
        const MatchedMessage &message = match_.message;
        if (!header) {
            record()->matched(message.source, message.tag, message.bytes);
            fail(not_recognized(message));
            return;
        }
        size_ = header->size;
        record()->matched(message.source, message.tag, size_);
        if (header->failure != CL_SUCCESS) {
            fail(Status::failure(CL_PEER_TRANSFER_FAILED,
                                 fmt::format("rank {} sent an error message: its command failed with {}",
                                             message.source, code_text(header->failure))));
            return;
        }
        note_if_truncated();
        if (header->block != 0)
            start_blocks(*header, message.source);
        else
            take_payload(memory_ + header_size);
    }

    void note_if_truncated() {
        if (size_ <= range_.size) return;
        fail(Status::failure(CL_MESSAGE_TRUNCATED,
                             fmt::format("the message from rank {} with tag {} has {} bytes, but the receive only {}",
                                         match_.message.source, match_.message.tag, size_, range_.size)));
    }

    void take_payload(const std::byte *payload) {
        record()->chosen(path_of_whole(), std::max<std::size_t>(size_, 1), 1);
        if (!status().ok() || size_ == 0) return;
        if (range_.mapped != nullptr) {
            const std::uint64_t start = now_ns();
            if (payload != range_.mapped) {
                write_mapped(range_, 0, size_, payload);
                record()->stage_done(Stage::device, start);
            }
            record()->moved(size_);
            return;
        }
        start_write(write_, range_, 0, size_, payload, range_.waits_for_copies());
        step_ = Step::write;
    }

    void start_blocks(const MessageHeader &header, int source) {
        step_ = Step::blocks;
        if (header.ring != 0) {
            // If the ring can't be used, the blocks use MPI.
            const NearOffer offer{header.ring,  header.exported, header.whole,
                                  header.depth, header.block,    header.offset};
            near_ = peer_.comm->links().accept(peer_.comm->world_rank(source), offer, range_, size_);
        }
        if (near_) {
            const Plan &plan = near_->plan();
            record()->chosen(plan.path, plan.block, plan.depth);
            auto far_end = near_->far_end(source, Direction::recv, size_, record());
            blocks_.emplace(range_, Direction::recv, size_, plan, std::move(far_end), record(), status(),
                            near_->place());
            return;
        }
        Situation with_peer = situation(source);
        with_peer.in_place = header.in_place != 0;
        const Plan plan = plan_recv(size_, header.block, with_peer, config());
        record()->chosen(range_.copied ? Path::pinned : plan.path, plan.block, plan.depth);
        const BlockPeer peer{peer_.comm->block_comm(), peer_.comm->block_rank(source),
                             static_cast<int>(header.channel)};
        blocks_.emplace(range_, Direction::recv, size_, plan, message_end(Direction::recv, peer, plan), record(),
                        status());
    }

    Step step_ = Step::nothing;
    PendingMatch match_;
    std::uint64_t start_ns_ = 0;
    const std::byte *memory_ = nullptr;  ///< of the message
    std::unique_ptr<std::byte[]> other_memory_;
    std::size_t size_ = 0;
    DeviceCommand write_;
    DeviceCommand rest_;
    std::optional<NearWay> near_;
    std::optional<BlockTransfer> blocks_;
};

}  // namespace

std::unique_ptr<Operation> make_send(DeviceRange range, MessagePeer peer, MessageDriver &driver, Channels &channels,
                                     bool synchronous) {
    auto record = make_record(Direction::send, range.size, peer);
    return std::make_unique<SendOperation>(std::move(record), std::move(range), std::move(peer), driver, channels,
                                           synchronous);
}

std::unique_ptr<Operation> make_recv(DeviceRange range, MessagePeer peer, MessageDriver &driver,
                                     std::optional<MatchedMessage> found) {
    auto record = make_record(Direction::recv, range.size, peer);
    return std::make_unique<RecvOperation>(std::move(record), std::move(range), std::move(peer), driver,
                                           std::move(found));
}

std::shared_ptr<std::byte> memory_behind_header(const DeviceResources &resources, std::size_t size) {
    const auto lease = std::make_shared<StagingPool::Lease>(resources.staging().lease(header_size + size));
    return {lease, lease->data() + header_size};
}

std::shared_ptr<Record> make_record(Direction direction, std::size_t size, const MessagePeer &peer) {
    const int world_peer = peer.rank < 0 ? peer.rank : peer.comm->world_rank(peer.rank);
    return std::make_shared<Record>(direction, peer.rank, world_peer, peer.tag, size, peer.comm);
}

Status not_recognized(const MatchedMessage &message) {
    return Status::failure(
        CL_MESSAGE_NOT_RECOGNIZED,
        fmt::format("the message of {} bytes from rank {} with tag {} was not sent by a cldist command or with "
                    "MPI_CL_MEM. Receive it with an MPI call and its datatype, such as MPI_BYTE; or send it with "
                    "clEnqueueSendBuffer or MPI_CL_MEM; or set the info key cldist_wire=plain on the communicator",
                    message.bytes, message.source, message.tag));
}

}  // namespace cldist
