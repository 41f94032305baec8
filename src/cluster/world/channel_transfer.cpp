#include "cluster/world/channel_transfer.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "cluster/world/kernel_transfer.hpp"
#include "mpi_interop/message_operation.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

/// Copies a message from the landing memory to its range.
class LandedCopy {
public:
    void start(DeviceLinks &links, int rank, const MessageHeader &header,
               const DeviceRange &range) {
        if (links.copy_landed(rank, header, range, write_)) return;
        memory_ = std::make_unique_for_overwrite<std::byte[]>(range.size);
        links.read_landed(rank, header, memory_.get());
        if (range.mapped != nullptr)
            write_mapped(range, 0, range.size, memory_.get());
        else
            start_write(write_, range, 0, range.size, memory_.get(), false);
    }
    [[nodiscard]] Outcome ended(const DeviceRange &range) {
        return range.mapped != nullptr ? Status{} : write_.ended();
    }

private:
    std::unique_ptr<std::byte[]> memory_;
    DeviceCommand write_;
};

class ChannelTransfer final : public MessageEnd {
public:
    ChannelTransfer(DeviceRange range, Direction direction, Wire wire, const Link &link,
                    HostLinks &rings, MessageDriver &driver)
        : MessageEnd(record_of(direction, wire, range.size), std::move(range), driver),
          direction_(direction),
          wire_(wire),
          link_(link),
          rings_(rings) {}

    void start(const Status &gate) override {
        if (!gate.ok()) fail(gate);
        gate_ = gate;
        if (link_.by_kernels) {
            if (direction_ == Direction::recv) return header_.receive(wire_, driver_, waker_);
            header_.send({}, wire_, driver_, waker_);
        }
        begin();
    }

    Progress poll() override {
        if (link_.by_kernels && !begun_) {
            if (!header_.done()) return Progress::idle;
            if (header_.error() != MPI_SUCCESS) {
                fail(mpi_failure(header_.error(), "MPI_Irecv"));
                return Progress::done;
            }
            if (header_.content().slot != 0) return take_landed();
            begin();
        }
        if (!blocks_) {
            if (!settled()) return Progress::idle;
            const BlockPeer peer{wire_.comm, wire_.rank, wire_.tag};
            if (!attempt(
                    [&] { begin_blocks(direction_, range_.size, plan_, wire_.rank, peer, gate_); }))
                return Progress::done;
        }
        const Progress progress = blocks_->poll();
        if (progress != Progress::done) return progress;
        if ((offers_ && !offer_.done()) || (link_.by_kernels && !header_.done()))
            return Progress::idle;
        if (!blocks_->status().ok()) fail(blocks_->status());
        return Progress::done;
    }

    [[nodiscard]] bool bytes_in_flight() const override { return true; }
    [[nodiscard]] bool wakes() const override { return blocks_wake(); }

private:
    void begin() {
        begun_ = true;
        plan_ = make_plan(link_.in_process ? rings_.reach_itself()
                                           : link_.same_host && rings_.reach(wire_.rank));
        if (plan_.path != Path::shared && plan_.path != Path::peer_to_peer) return;
        offers_ = true;
        if (direction_ == Direction::recv) return offer_.receive(wire_, driver_, waker_);
        near_ = rings_.open(wire_.rank, range_, plan_);
        offer_.send(near_ ? near_->offer() : NearOffer{}, wire_, driver_, waker_);
    }

    /// A kernel of the sender moves the bytes to landing memory. This process has no kernel for the
    /// message; its host copies them from there.
    Progress take_landed() {
        DeviceLinks &links = *rings_.devices();
        if (!landed_) {
            if (!links.landed(wire_.rank, header_.content())) return Progress::idle;
            landed_.emplace();
            if (links.spoiled(wire_.rank, header_.content()))
                fail(failed_before(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST));
            record()->chosen(Path::kernel, range_.size, 1);
            const bool copies = status().ok() && attempt([&] {
                                    landed_->start(links, wire_.rank, header_.content(), range_);
                                });
            if (!copies) return end_landed(links);
        }
        const Outcome outcome = landed_->ended(range_);
        if (!outcome) return Progress::idle;
        if (!outcome->ok()) fail(*outcome);
        return end_landed(links);
    }
    Progress end_landed(DeviceLinks &links) {
        links.note_taken(wire_.rank, header_.content());
        if (status().ok()) record()->moved(range_.size);
        return Progress::done;
    }

    // Both ends compute the sender's plan, whose block size both use. If its path is not shared or
    // peer-to-peer, each end then chooses its own path; a sender whose range could not be mapped
    // copies.
    [[nodiscard]] Plan make_plan(bool ring) const {
        const bool host_memory = link_.sender.host_memory;
        const Advice *const advice = link_.sender.messages(link_.same_host);
        const bool maps = plan_mapping(host_memory, range_.size, advice, config());
        Situation sender{.host_memory = host_memory,
                         .mapped = maps,
                         .same_host = link_.same_host,
                         .advice = advice};
        sender.ring = ring;
        if (direction_ == Direction::send) sender.exports = range_.exports();
        const Plan plan_there = plan_send(range_.size, sender, config());
        if (plan_there.path == Path::shared || plan_there.path == Path::peer_to_peer)
            return plan_there;
        const Situation here{.host_memory = range_.host_memory(),
                             .mapped = range_.mapped != nullptr,
                             .same_host = link_.same_host,
                             .advice = link_.advice_here()};
        Plan plan = plan_recv(range_.size, plan_there.block, here, config());
        // The range is host memory.
        if (range_.resources == nullptr) plan.path = Path::mapped;
        return plan;
    }

    // Returns true if the path of the blocks is known. The receiver may be unable to use the ring
    // that the sender offers.
    bool settled() {
        if (!offers_) return true;
        if (direction_ == Direction::recv) {
            if (!offer_.done()) return false;
            if (offer_.error() != MPI_SUCCESS) fail(mpi_failure(offer_.error(), "MPI_Irecv"));
            if (offer_.content().ring != 0)
                near_ = rings_.accept(wire_.rank, offer_.content(), range_, range_.size);
        } else if (!settle(rings_)) {
            return false;
        }
        plan_ = near_ ? near_->plan() : make_plan(false);
        return true;
    }

    const Direction direction_;
    const Wire wire_;
    const Link link_;
    HostLinks &rings_;
    Status gate_;
    ObjectMessage<MessageHeader> header_;  ///< only if kernels may carry out the message
    bool begun_ = false;
    std::optional<LandedCopy> landed_;
    Plan plan_;
    bool offers_ = false;  ///< `offer_` is sent before the blocks
    ObjectMessage<NearOffer> offer_;
};

}  // namespace

std::unique_ptr<Operation> make_channel_transfer(DeviceRange range, Direction direction,
                                                 const Wire &wire, const Link &link,
                                                 HostLinks &rings, MessageDriver &driver) {
    return std::make_unique<ChannelTransfer>(std::move(range), direction, wire, link, rings,
                                             driver);
}

}  // namespace cldist::cluster
