#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "events/failure.hpp"
#include "mpi_interop/host_links.hpp"
#include "mpi_interop/message_endpoint.hpp"
#include "mpi_interop/message_operations.hpp"
#include "mpi_interop/ordered_command.hpp"
#include "mpi_interop/wire.hpp"
#include "pipeline/block_transfer.hpp"
#include "pipeline/cleanup.hpp"

namespace cldist {

/// One end of a message whose bytes can move in blocks: through a ring of this host, or in MPI
/// messages.
class MessageEnd : public Operation {
public:
    MessageEnd(std::shared_ptr<Record> record, DeviceRange range, MessageDriver &driver)
        : Operation(std::move(record)), range_(std::move(range)), driver_(driver) {}

    void woken_by(const Waker &waker) override { waker_ = waker; }

protected:
    /// In the sender: returns false until the receiver has answered whether it can use the ring.
    bool settle(HostLinks &links) {
        const std::optional<bool> settled = near_ ? links.settled(*near_) : true;
        if (settled && !*settled) near_.reset();
        return settled.has_value();
    }
    /// Starts the blocks of `size` bytes as planned: through `near_`, or else in MPI messages.
    /// `rank` is the peer's rank for error messages.
    void begin_blocks(Direction direction, std::size_t size, const Plan &plan, int rank,
                      const BlockPeer &peer, const Status &so_far) {
        record()->chosen(range_.copied && !near_ ? Path::staged : plan.path, plan.block,
                         plan.depth);
        std::unique_ptr<Endpoint> far_end;
        if (near_)
            far_end = near_->far_end(rank, direction, size, record());
        else
            far_end =
                std::make_unique<MessageEndpoint>(driver_, direction, peer, plan, record(), waker_);
        blocks_.emplace(range_, direction, size, plan, std::move(far_end), record(), so_far,
                        near_ ? near_->place() : SharedPlace{});
    }
    /// Returns true if the blocks have begun and wake the driver.
    [[nodiscard]] bool blocks_wake() const {
        return waker_ && blocks_ && !near_ && !blocks_->device_busy();
    }

    DeviceRange range_;
    MessageDriver &driver_;
    Waker waker_;
    std::optional<NearWay> near_;  ///< without it the blocks use MPI
    std::optional<BlockTransfer> blocks_;
};

/// The base of sends and receives. They consist of a few sequential steps, each of which is polled
/// until it ends.
class MessageOperation : public MessageEnd {
public:
    MessageOperation(std::shared_ptr<Record> record, DeviceRange range, MessagePeer peer,
                     MessageDriver &driver, std::unique_ptr<OrderedCommand> ordered)
        : MessageEnd(std::move(record), std::move(range), driver),
          peer_(std::move(peer)),
          plain_(peer_.comm->wire() == Wire::plain),
          ordered_(std::move(ordered)) {}

    ~MessageOperation() override {
        blocks_.reset();
        release_later(std::move(range_.buffer));
    }

    void woken_by(const Waker &waker) override {
        MessageEnd::woken_by(waker);
        ticket_.waker = &waker_;
    }

    Progress poll() override {
        bool moved = false;
        const bool well = attempt([&] {
            while (!ended_ && step()) moved = true;
        });
        if (!well) ended_ = true;
        if (ended_ && !status().ok()) abandon(status());
        if (ended_) return Progress::done;
        return moved ? Progress::moved : Progress::idle;
    }

    void abandon(const Status &status) override {
        if (!is_ahead()) return;
        end_job(fmt::format("{}\n  {}", status.message, describe(*record(), now_ns())),
                "because a kernel of this message is in a queue, and a kernel cannot fail "
                "(CLDIST_PATH=device)");
    }

protected:
    /// Returns true if there was progress.
    virtual bool step() = 0;

    bool end() {
        ended_ = true;
        return true;
    }
    /// Returns true if the command took its position at the call. Its kernel may then wait, and
    /// cannot fail its event.
    [[nodiscard]] bool is_ahead() const {
        return ordered_ != nullptr && ordered_->position() == OrderedCommand::Position::at_call;
    }
    [[nodiscard]] Situation situation(int rank) const {
        const bool same_host = peer_.comm->same_host(rank);
        return {range_.host_memory(),
                range_.mapped != nullptr,
                same_host,
                range_.strided.has_value(),
                range_.resources == nullptr || range_.copied,
                range_.resources == nullptr ? nullptr
                                            : range_.resources->advice(message_route(same_host))};
    }
    /// Returns true if the payload can be sent from the range or received into it.
    [[nodiscard]] bool in_place() const { return range_.mapped != nullptr && !range_.strided; }
    /// The path of an eager message.
    [[nodiscard]] Path path_of_eager() const {
        return range_.mapped != nullptr && !range_.copied ? Path::mapped : Path::staged;
    }
    /// Memory for a message of `size` bytes, page-locked if a device copies the payload.
    std::byte *message_memory(std::size_t size) {
        if (range_.copied) return range_.mapped - header_size;
        if (range_.mapped != nullptr) {
            memory_ = std::make_unique_for_overwrite<std::byte[]>(size);
            return memory_.get();
        }
        staging_ = range_.resources->staging().lease(size);
        return staging_.get();
    }
    void begin_blocks(Direction direction, std::size_t size, const Plan &plan, int rank,
                      int channel, const Status &so_far) {
        MessageEnd::begin_blocks(direction, size, plan, rank,
                                 {peer_.comm->block_comm(), peer_.comm->block_rank(rank), channel},
                                 so_far);
    }

    /// If the kernel has failed or will never start, ends with a failure and returns true.
    bool end_if_kernel_failed() {
        if (!is_ahead() || !ordered_->failed()) return false;
        fail(OrderedCommand::failure());
        return end();
    }

    [[nodiscard]] bool has_waker() const { return static_cast<bool>(waker_); }

    const MessagePeer peer_;
    const bool plain_;                         ///< the message has no header
    MessageTicket ticket_;                     ///< for the header or a message in one piece
    std::unique_ptr<OrderedCommand> ordered_;  ///< null: the host moves the bytes

private:
    std::unique_ptr<std::byte[]> memory_;
    StagingPool::Lease staging_;
    bool ended_ = false;
};

}  // namespace cldist
