#include "cluster/world/channel_transfer.hpp"

#include <utility>

#include "cluster/world/kernel_transfer.hpp"
#include "mpi_interop/message_operation.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist::cluster {
namespace {

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
            headed_.waker = &waker_;
            if (direction_ == Direction::recv) {
                driver_.receive(&header_, sizeof header_, wire_.rank, wire_.tag, wire_.comm,
                                headed_);
                return;
            }
            driver_.send(&header_, sizeof header_, wire_.rank, wire_.tag, wire_.comm, headed_);
        }
        begin();
    }

    Progress poll() override {
        if (link_.by_kernels && !begun_) {
            if (!headed_.done) return Progress::idle;
            if (headed_.error != MPI_SUCCESS) {
                fail(mpi_failure(headed_.error, "MPI_Irecv"));
                return Progress::done;
            }
            if (header_.slot != 0) return take_landed();
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
        if ((offers_ && !offered_.done) || (link_.by_kernels && !headed_.done))
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
        offered_.waker = &waker_;
        if (direction_ == Direction::recv) {
            driver_.receive(&offer_, sizeof offer_, wire_.rank, wire_.tag, wire_.comm, offered_);
            return;
        }
        near_ = rings_.open(wire_.rank, range_, plan_);
        if (near_) offer_ = near_->offer();
        driver_.send(&offer_, sizeof offer_, wire_.rank, wire_.tag, wire_.comm, offered_);
    }

    /// A kernel of the sender moves the bytes to landing memory. This process has no kernel for the
    /// message; its host copies them from there.
    Progress take_landed() {
        DeviceLinks &links = *rings_.devices();
        if (!landed_) {
            if (!links.landed(wire_.rank, header_)) return Progress::idle;
            landed_ = true;
            if (links.spoiled(wire_.rank, header_))
                fail(failed_before(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST));
            record()->chosen(Path::kernel, range_.size, 1);
            const bool copies = status().ok() && attempt([&] { copy_landed(links); });
            if (!copies) return end_landed(links);
        }
        if (range_.mapped == nullptr) {
            const Outcome outcome = write_.ended();
            if (!outcome) return Progress::idle;
            if (!outcome->ok()) fail(*outcome);
        }
        return end_landed(links);
    }
    void copy_landed(DeviceLinks &links) {
        if (links.copy_landed(wire_.rank, header_, range_, write_)) return;
        memory_ = std::make_unique_for_overwrite<std::byte[]>(range_.size);
        links.read_landed(wire_.rank, header_, memory_.get());
        if (range_.mapped != nullptr)
            write_mapped(range_, 0, range_.size, memory_.get());
        else
            start_write(write_, range_, 0, range_.size, memory_.get(), false);
    }
    Progress end_landed(DeviceLinks &links) {
        links.note_taken(wire_.rank, header_);
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
            if (!offered_.done) return false;
            if (offered_.error != MPI_SUCCESS) fail(mpi_failure(offered_.error, "MPI_Irecv"));
            if (offer_.ring != 0) near_ = rings_.accept(wire_.rank, offer_, range_, range_.size);
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
    MessageHeader header_;  ///< only if kernels may carry out the message
    MessageTicket headed_;
    bool begun_ = false;
    bool landed_ = false;
    std::unique_ptr<std::byte[]> memory_;
    DeviceCommand write_;
    Plan plan_;
    bool offers_ = false;  ///< `offer_` is sent before the blocks
    NearOffer offer_;
    MessageTicket offered_;
};

}  // namespace

std::unique_ptr<Operation> make_channel_transfer(DeviceRange range, Direction direction,
                                                 const Wire &wire, const Link &link,
                                                 HostLinks &rings, MessageDriver &driver) {
    return std::make_unique<ChannelTransfer>(std::move(range), direction, wire, link, rings,
                                             driver);
}

}  // namespace cldist::cluster
