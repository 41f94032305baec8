#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/error_code.hpp"
#include "base/log.hpp"
#include "mpi_interop/message_operation.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

// Measures one message as a sample for the choice between staging and moving in place (see
// Refinements).
class PlaceTrial {
public:
    // Returns true if a message that may be staged should move in place instead. Call it when the
    // transfer starts.
    bool chooses_place(const DeviceRange &range, const Situation &situation) {
        if (config().refine == Switch::off || range.resources == nullptr ||
            !may_stage(range.size, situation, config()))
            return false;
        resources_ = range.resources;
        size_ = range.size;
        in_place_ = resources_->refinements().next_in_place(size_);
        start_ns_ = now_ns();
        return in_place_;
    }

    // The result of chooses_place().
    [[nodiscard]] bool in_place() const { return in_place_; }

    // Records the time of a successful transfer in blocks of `block` bytes.
    void ended(const BlockTransfer &transfer, std::size_t block) {
        if (resources_ == nullptr || transfer.first_moved_ns() == 0) return;
        // If the first block took this many times longer than the average of the others, the
        // transfer has waited for its peer and is no sample. In a pipeline of three stages, about 3
        // is normal.
        constexpr double waited = 8;
        const std::uint64_t end = now_ns();
        const auto first = static_cast<double>(transfer.first_moved_ns() - start_ns_);
        const auto others = static_cast<double>(end - transfer.first_moved_ns());
        const std::size_t blocks = (size_ + block - 1) / block;
        if (blocks > 1 && first > waited * others / static_cast<double>(blocks - 1)) return;
        resources_->refinements().took(size_, in_place_, (first + others) * 1e-9);
    }

private:
    std::shared_ptr<DeviceResources> resources_;  ///< null: this transfer is no sample
    std::size_t size_ = 0;
    bool in_place_ = false;
    std::uint64_t start_ns_ = 0;
};

class SendOperation final : public MessageOperation {
public:
    SendOperation(std::shared_ptr<Record> record, DeviceRange range, MessagePeer peer,
                  MessageDriver &driver, Channels &channels, bool synchronous,
                  std::unique_ptr<OrderedCommand> ordered)
        : MessageOperation(std::move(record), std::move(range), std::move(peer), driver,
                           std::move(ordered)),
          channels_(channels),
          synchronous_(synchronous) {}

    ~SendOperation() override {
        leave_turn();
        if (channel_) channels_.release(*channel_);
    }

    void announce() override {
        if (peer_.rank == MPI_PROC_NULL) return;
        take_turn();
        if (is_ahead()) post_ordered();
    }

    void start(const Status &gate) override {
        fail(gate);
        if (peer_.rank == MPI_PROC_NULL) {
            step_ = Step::nothing;
            return;
        }
        if (!gate.ok()) {
            send_notice();
            return;
        }
        if (is_ahead()) {
            if (posted_) driver_.add(MPI_SUCCESS, request_, ticket_);
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

    // A kernel in the queue may still write to the receiver's landing memory.
    [[nodiscard]] bool bytes_in_flight() const override {
        return step_ != Step::nothing || ordered_ != nullptr;
    }
    [[nodiscard]] bool wakes() const override {
        return has_waker() && posted_ &&
               (step_ == Step::message || (step_ == Step::blocks && blocks_wake()));
    }

private:
    enum class Step { nothing, read, message, ordered, kernel, blocks };

    bool step() override {
        switch (step_) {
            case Step::nothing: return end();
            case Step::read: {
                const Outcome outcome = read_.ended();
                if (!outcome) return false;
                fail(*outcome);
                if (!outcome->ok()) {
                    send_notice();
                    return true;
                }
                record()->stage_done(Stage::device, read_.start_ns());
                if (plain_)
                    send_message(eager_, range_.size);
                else
                    send_eager();
                return true;
            }
            case Step::message:
                if (!posted_) return try_post();
                if (!ticket_.done) return false;
                take_message_result();
                if (ordered_ != nullptr) {
                    // The queue still contains the kernel, which uses the buffer.
                    if (!status().ok()) ordered_->withdraw();
                    step_ = Step::kernel;
                    return true;
                }
                if (status().ok()) record()->moved(range_.size);
                return end();
            case Step::ordered: {
                const bool posted = !posted_ && try_post();
                if (!posted_ || !ticket_.done) return posted;
                take_message_result();
                step_ = Step::kernel;
                return true;
            }
            case Step::kernel: return step_kernel();
            case Step::blocks: {
                const bool posted = !posted_ && try_post();
                if (!blocks_ && !try_begin_blocks()) return posted;
                const Progress progress = blocks_->poll();
                if (progress != Progress::done || !posted_ || !ticket_.done)
                    return posted || progress == Progress::moved;
                take_message_result();
                fail(blocks_->status());
                if (status().ok()) trial_.ended(*blocks_, plan_.block);
                return end();
            }
        }
        return false;
    }

    // Posts the header on the calling thread. If it arrives before the program calls the receive,
    // the receive's kernel need not be held back.
    void post_ordered() {
        step_ = Step::ordered;
        record()->chosen(Path::device, range_.size, 1);
        encode_ordered();
        message_ = {header_.data(), header_size};
        if (!may_post()) return;
        message_start_ns_ = now_ns();
        PMPI_Isend(header_.data(), static_cast<int>(header_size), MPI_BYTE, peer_.rank, peer_.tag,
                   peer_.comm->handle(), &request_);
        posted_ = true;
        leave_turn();
    }

    // Encodes a header that describes where the kernel puts the bytes.
    void encode_ordered() {
        MessageHeader header{range_.size, range_.size};
        ordered_->describe(header);
        encode(header, header_.data());
    }

    bool step_kernel() {
        if (end_if_kernel_failed()) return true;
        if (!ordered_->ended()) return false;
        // After an error message, the slot may already belong to another message.
        if (!is_ahead() && status().ok() && ordered_->failed()) {
            ordered_->spoil();
            fail(Status::failure(CL_OUT_OF_RESOURCES,
                                 "the device has failed the kernel that sends the message"));
        }
        record()->stage_done(Stage::device, message_start_ns_);
        if (status().ok()) record()->moved(range_.size);
        return end();
    }

    [[nodiscard]] bool may_post() const {
        return (!is_ahead() || ordered_->may_post()) && message_order().may_post(turn());
    }

    void start_with_header() {
        if (ordered_ != nullptr) {
            record()->chosen(Path::kernel, range_.size, 1);
            ordered_->note_running();
            encode_ordered();
            send_message(header_.data(), header_size);
            return;
        }
        if (range_.copied) {
            record()->chosen(Path::staged, range_.size, 1);
            eager_ = message_memory(header_size + range_.size);
            send_eager();
            return;
        }
        Situation with_peer = situation(peer_.rank);
        // Between CPU devices MPI's single copy in host memory is as fast as a ring.
        const bool worth_it = range_.resources != nullptr ||
                              host_path(config()) != Path::automatic ||
                              DeviceResources::some_have_own_memory();
        with_peer.ring = worth_it && peer_.comm->links().reach(peer_.comm->world_rank(peer_.rank));
        with_peer.exports = range_.exports();
        // Copies on a busy device would wait, too.
        if (with_peer.exports != Exports::nothing && config().path == Path::automatic &&
            range_.size <= DeviceLinks::most_bytes && peer_.comm->links().devices()->is_busy())
            with_peer.exports = Exports::nothing;
        with_peer.in_place = trial_.chooses_place(range_, with_peer);
        plan_ = plan_send(range_.size, with_peer, config());
        fit_ring(plan_, range_.size);
        if (plan_.path == Path::shared || plan_.path == Path::peer_to_peer) {
            near_ = peer_.comm->links().open(peer_.comm->world_rank(peer_.rank), range_, plan_);
            if (!near_) {
                with_peer.ring = false;
                plan_ = plan_send(range_.size, with_peer, config());
            }
        }
        record()->chosen(plan_.path, plan_.block, plan_.depth);
        if (plan_.eager)
            start_eager();
        else
            start_blocks();
    }

    void start_eager() {
        if (range_.size == 0) {
            encode({}, header_.data());
            send_message(header_.data(), header_size);
            return;
        }
        eager_ = message_memory(header_size + range_.size);
        if (range_.mapped != nullptr) {
            const std::uint64_t start = now_ns();
            read_mapped(range_, 0, range_.size, eager_ + header_size);
            record()->stage_done(Stage::device, start);
            send_eager();
            return;
        }
        read_payload(eager_ + header_size);
    }

    void start_plain() {
        record()->chosen(path_of_eager(), std::max<std::size_t>(range_.size, 1), 1);
        if (range_.size == 0 || in_place()) {
            send_message(range_.mapped, range_.size);
            return;
        }
        eager_ = message_memory(range_.size);
        if (range_.mapped != nullptr) {
            read_mapped(range_, 0, range_.size, eager_);
            send_message(eager_, range_.size);
            return;
        }
        read_payload(eager_);
    }

    void read_payload(std::byte *to) {
        take_turn();
        start_read(read_, range_, 0, range_.size, to, range_.waits_for_copies());
        step_ = Step::read;
    }

    void start_blocks() {
        channel_ = channels_.acquire();
        const NearOffer offer = near_ ? near_->offer() : NearOffer{};
        encode({range_.size, plan_.block, static_cast<std::uint32_t>(*channel_), CL_SUCCESS,
                trial_.in_place() ? 1U : 0U, offer.ring, offer.depth, offer.exported,
                offer.exports_range, 0, offer.offset},
               header_.data());
        try_begin_blocks();
        send_message(header_.data(), header_size);
        step_ = Step::blocks;
    }

    // Returns false until the receiver has answered whether it can use the ring.
    bool try_begin_blocks() {
        const bool offered = near_.has_value();
        if (!settle(peer_.comm->links())) return false;
        if (offered)
            plan_ = near_ ? near_->plan()
                          : plan_recv(range_.size, plan_.block, situation(peer_.rank), config());
        begin_blocks(Direction::send, range_.size, plan_, peer_.rank, *channel_, {});
        return true;
    }

    // The payload already follows the space for the header in `eager_`.
    void send_eager() {
        encode({range_.size, 0, 0, CL_SUCCESS}, eager_);
        send_message(eager_, header_size + range_.size);
    }

    // Sends an error message in place of the message.
    void send_notice() {
        if (plain_) {
            give_up();
            return;
        }
        encode({0, 0, 0, status().code}, header_.data());
        send_message(header_.data(), header_size);
    }

    // The receiver of a plain message would take an error message for the payload.
    void give_up() {
        log_warning(
            "a send to rank {} with tag {} sends nothing, because it failed: {}: {}. On a "
            "communicator with plain messages the receiver gets no error message. Its receive "
            "stays pending or matches the next message",
            peer_.rank, peer_.tag, status().message, code_text(status().code));
        leave_turn();
        step_ = Step::nothing;
    }

    void send_message(const std::byte *data, std::size_t size) {
        message_ = {data, size};
        step_ = Step::message;
        try_post();
    }

    void take_turn() {
        if (!std::exchange(turn_taken_, true)) message_order().take_turn(turn());
    }
    void leave_turn() {
        if (std::exchange(turn_taken_, false)) message_order().leave_turn(turn());
    }

    // Posts the message if it is its turn. The order of the messages is the order in which their
    // commands started, regardless of how long their copies take.
    bool try_post() {
        if (!may_post()) {
            take_turn();
            return false;
        }
        posted_ = true;
        if (peer_.comm->freed()) {
            ticket_.done = true;
            fail(Status::failure(CL_INVALID_COMMUNICATOR,
                                 "the communicator was freed before the command started"));
            return true;
        }
        message_start_ns_ = now_ns();
        driver_.send(message_.data(), message_.size(), peer_.rank, peer_.tag, peer_.comm->handle(),
                     ticket_, synchronous_);
        leave_turn();
        return true;
    }

    [[nodiscard]] SendTurn turn() const {
        return {peer_.comm.get(), peer_.rank, this, is_ahead() ? ordered_.get() : nullptr};
    }

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
    Step step_ = Step::nothing;
    std::optional<int> channel_;
    std::array<std::byte, header_size> header_{};
    std::span<const std::byte> message_;  ///< the header and, if eager, the payload
    bool turn_taken_ = false;
    bool posted_ = false;
    MPI_Request request_ = MPI_REQUEST_NULL;  ///< from post_ordered()
    std::uint64_t message_start_ns_ = 0;
    /// The eager message. If not plain, it begins with the space for the header.
    std::byte *eager_ = nullptr;
    DeviceCommand read_;
};

}  // namespace

std::unique_ptr<Operation> make_send(DeviceRange range, MessagePeer peer, MessageDriver &driver,
                                     Channels &channels, bool synchronous,
                                     std::unique_ptr<OrderedCommand> ordered) {
    auto record = make_record(Direction::send, range.size, peer);
    return std::make_unique<SendOperation>(std::move(record), std::move(range), std::move(peer),
                                           driver, channels, synchronous, std::move(ordered));
}

}  // namespace cldist
