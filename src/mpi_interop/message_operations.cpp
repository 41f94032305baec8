#include "mpi_interop/message_operations.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "mpi_interop/message_operation.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

class RecvOperation final : public MessageOperation {
public:
    RecvOperation(std::shared_ptr<Record> record, DeviceRange range, MessagePeer peer,
                  MessageDriver &driver, std::optional<MatchedMessage> found,
                  std::unique_ptr<OrderedCommand> ordered)
        : MessageOperation(std::move(record), std::move(range), std::move(peer), driver,
                           std::move(ordered)) {
        if (ordered_ != nullptr && ordered_->granted())
            this->record()->chosen(Path::device, range_.size, 1);
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
        fail(gate);
        start_ns_ = now_ns();
        if (step_ == Step::match) return;
        if (peer_.rank == MPI_PROC_NULL) {
            record()->matched(MPI_PROC_NULL, MPI_ANY_TAG, 0);
            return;
        }
        if (peer_.comm->freed()) {
            fail(Status::failure(CL_INVALID_COMMUNICATOR,
                                 "the communicator was freed before the command started"));
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

    [[nodiscard]] bool unused() override {
        if (ordered_ == nullptr || is_ahead()) return true;
        if (!ordered_->ended()) return false;
        if (ordered_->spoiled() && !ordered_->failed())
            end_job(fmt::format("{}\n  {}", spoiled().message, describe(*record(), now_ns())),
                    "because the kernel that receives the message cannot fail any more");
        if (ends_in_queue()) record()->stage_done(Stage::device, start_ns_);
        return true;
    }
    [[nodiscard]] bool ends_in_queue() const override {
        return ordered_ != nullptr && !is_ahead() && ordered_->granted();
    }

    [[nodiscard]] bool bytes_in_flight() const override {
        return step_ != Step::nothing && step_ != Step::match;
    }
    [[nodiscard]] bool wakes() const override {
        return has_waker() && !is_ahead() &&
               (step_ == Step::match || step_ == Step::message ||
                (step_ == Step::blocks && blocks_wake()));
    }

private:
    enum class Step {
        nothing,
        match,
        message,
        ordered,
        landed,
        gate,
        write,
        blocks,
        rest,
        release
    };

    bool step() override {
        if (end_if_kernel_failed()) return true;
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
            case Step::ordered:
                if (!ordered_->ended()) return false;
                if (ordered_->spoiled()) fail(spoiled());
                record()->stage_done(Stage::device, start_ns_);
                record()->moved(size_);
                return end();
            case Step::landed:
                if (!devices().landed(world_source(), header_) && !joins()) return false;
                if (devices().spoiled(world_source(), header_)) fail(spoiled());
                step_ = Step::gate;
                return true;
            case Step::gate:
                if (ordered_ != nullptr && !ordered_->started()) return false;
                deliver();
                return true;
            case Step::release: return ordered_->ended() && end();
            case Step::write: {
                const Outcome outcome = write_.ended();
                if (!outcome) return false;
                fail(*outcome);
                record()->stage_done(Stage::device, write_.start_ns());
                if (header_.slot != 0) devices().note_taken(world_source(), header_);
                if (status().ok()) record()->moved(size_);
                return finish();
            }
            case Step::blocks: {
                const Progress progress = blocks_->poll();
                if (progress != Progress::done) return progress == Progress::moved;
                fail(blocks_->status());
                return end_or_read_rest();
            }
            case Step::rest: {
                const Outcome outcome = rest_.ended();
                if (!outcome) return false;
                fail(*outcome);
                return end();
            }
        }
        return false;
    }

    bool finish() {
        if (ordered_ == nullptr || ordered_->granted() || !status().ok()) return end();
        ordered_->release();
        if (!is_ahead()) return end();
        step_ = Step::release;
        return true;
    }

    // Returns true if the kernel may start before the bytes have arrived.
    [[nodiscard]] bool joins() {
        return ordered_ != nullptr && status().ok() && ordered_->may_join(world_source(), header_);
    }
    static Status spoiled() {
        return Status::failure(CL_PEER_TRANSFER_FAILED,
                               "the sender's device has failed the kernel that sends the message");
    }

    [[nodiscard]] DeviceLinks &devices() const { return *peer_.comm->links().devices(); }
    [[nodiscard]] int world_source() const { return peer_.comm->world_rank(match_.message.source); }

    // A message may be shorter than its receive, but the queue copies the whole staging memory to
    // the buffer. This reads the rest of the range into the staging memory first.
    bool end_or_read_rest() {
        if (!range_.copied || size_ >= range_.size || !status().ok()) return finish();
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

    // A message that does not fit this receive may have any size.
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
            fail(Status::failure(
                CL_PEER_TRANSFER_FAILED,
                fmt::format("rank {} sent an error message: its command failed with {}",
                            message.source, code_text(header->failure))));
            return;
        }
        note_if_truncated();
        header_ = *header;
        if (header_.slot != 0 && is_ahead() && ordered_->grant(world_source(), header_)) {
            record()->chosen(Path::device, std::max<std::size_t>(size_, 1), 1);
            step_ = Step::ordered;
            return;
        }
        step_ = header_.slot != 0 ? Step::landed : Step::gate;
    }

    void deliver() {
        step_ = Step::nothing;
        if (header_.slot != 0)
            take_landed();
        else if (header_.block != 0)
            start_blocks(header_, match_.message.source);
        else
            take_payload(memory_ + header_size);
    }

    void take_landed() {
        record()->chosen(Path::kernel, std::max<std::size_t>(size_, 1), 1);
        if (!status().ok()) {
            devices().note_taken(world_source(), header_);
            return;
        }
        if (ordered_ != nullptr && ordered_->grant(world_source(), header_)) {
            start_ns_ = now_ns();
            record()->moved(size_);
            return;
        }
        if (devices().copy_landed(world_source(), header_, range_, write_)) {
            step_ = Step::write;
            return;
        }
        other_memory_ = std::make_unique_for_overwrite<std::byte[]>(size_);
        devices().read_landed(world_source(), header_, other_memory_.get());
        devices().note_taken(world_source(), header_);
        header_.slot = 0;  // the sender may use it again
        take_payload(other_memory_.get());
    }

    void note_if_truncated() {
        if (size_ <= range_.size) return;
        fail(Status::failure(
            CL_MESSAGE_TRUNCATED,
            fmt::format(
                "the message from rank {} with tag {} has {} bytes, but the receive only {}",
                match_.message.source, match_.message.tag, size_, range_.size)));
    }

    void take_payload(const std::byte *payload) {
        record()->chosen(path_of_eager(), std::max<std::size_t>(size_, 1), 1);
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
            const NearOffer offer{header.ring,  header.exported, header.exports_range,
                                  header.depth, header.block,    header.offset};
            near_ =
                peer_.comm->links().accept(peer_.comm->world_rank(source), offer, range_, size_);
        }
        Situation with_peer = situation(source);
        with_peer.in_place = header.in_place != 0;
        const Plan plan =
            near_ ? near_->plan() : plan_recv(size_, header.block, with_peer, config());
        begin_blocks(Direction::recv, size_, plan, source, static_cast<int>(header.channel),
                     status());
    }

    Step step_ = Step::nothing;
    PendingMatch match_;
    std::uint64_t start_ns_ = 0;
    const std::byte *memory_ = nullptr;  ///< the received MPI message
    std::unique_ptr<std::byte[]> other_memory_;
    std::size_t size_ = 0;
    MessageHeader header_;
    DeviceCommand write_;
    DeviceCommand rest_;
};

}  // namespace

std::unique_ptr<Operation> make_recv(DeviceRange range, MessagePeer peer, MessageDriver &driver,
                                     std::optional<MatchedMessage> found,
                                     std::unique_ptr<OrderedCommand> ordered) {
    auto record = make_record(Direction::recv, range.size, peer);
    return std::make_unique<RecvOperation>(std::move(record), std::move(range), std::move(peer),
                                           driver, std::move(found), std::move(ordered));
}

std::shared_ptr<std::byte> memory_after_header(const DeviceResources &resources, std::size_t size,
                                               bool may_wait) {
    StagingPool &pool = resources.staging();
    const std::shared_ptr<std::byte> memory =
        may_wait ? pool.lease(header_size + size) : pool.lease_unused(header_size + size);
    if (memory == nullptr) return nullptr;
    return {memory, memory.get() + header_size};
}

std::shared_ptr<Record> make_record(Direction direction, std::size_t size,
                                    const MessagePeer &peer) {
    const int world_peer = peer.rank < 0 ? peer.rank : peer.comm->world_rank(peer.rank);
    return std::make_shared<Record>(direction, peer.rank, world_peer, peer.tag, size, peer.comm);
}

Status not_recognized(const MatchedMessage &message) {
    return Status::failure(
        CL_MESSAGE_NOT_RECOGNIZED,
        fmt::format("the message of {} bytes from rank {} with tag {} was not "
                    "sent by a cldist command or with MPI_CL_MEM. Receive it with an MPI call and "
                    "its datatype, such as MPI_BYTE; or send it with clEnqueueSendBuffer or "
                    "MPI_CL_MEM; or set the info key cldist_wire=plain on the communicator",
                    message.bytes, message.source, message.tag));
}

}  // namespace cldist
