#include "mpi_interop/ordered_command.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "mpi_interop/device_links.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist {

OrderedCommand::OrderedCommand(std::shared_ptr<DeviceLinks> links, Direction direction,
                               std::size_t size, Position position, const void *line)
    : links_(std::move(links)),
      direction_(direction),
      position_(position),
      place_{0, 0, size},
      hold_{line} {}

TransferSlot &OrderedCommand::slot() const { return (*links_->lane_->slots)[place_.slot]; }

bool OrderedCommand::reserve(int world_rank, cl_command_queue queue) {
    const std::lock_guard lock(links_->mutex_);
    queue_ = queue;
    sample_.begin(links_->load_.round());
    SlotPool &slots = links_->lane_->slots->pool();
    if (direction_ != Direction::send) {
        const std::optional<std::uint32_t> index = slots.take();
        if (!index) return false;
        place_.slot = *index;
    } else {
        DeviceLinks::Peer &peer = links_->peers_.at(world_rank);
        const std::optional<LandingPlace> place = peer.places.take(slots, place_.size);
        if (!place) return false;
        place_ = *place;
        peer_.world_rank = world_rank;
        slot().address = peer.memory->landing_address() + place_.offset;
    }
    stage_ = Stage::reserved;
    return true;
}

bool OrderedCommand::is_measured() {
    const std::lock_guard lock(links_->mutex_);
    return config().path == Path::automatic && links_->load_.measures_send();
}

void OrderedCommand::note_running() {
    const std::lock_guard lock(links_->mutex_);
    sample_.runs(links_->load_, place_.size);
}

void OrderedCommand::follow() {
    const std::lock_guard lock(links_->mutex_);
    hold_.number = links_->held_.next();
}

void OrderedCommand::hold(const QueueInfo &queue, std::span<const cl_event> wait_list) {
    const WaitArguments waits(wait_list);
    check(clEnqueueMarkerWithWaitList(queue.queue, waits.count, waits.events, hold_.reached.out()),
          "clEnqueueMarkerWithWaitList");
    hold_.until = create("clCreateUserEvent", clCreateUserEvent, queue.context);
    const std::lock_guard lock(links_->mutex_);
    hold_.number = links_->held_.hold(queue.queue, hold_.line);
}

// `enqueue_kernel` gets the wait list and the event of the kernel.
template <typename EnqueueKernel>
void OrderedCommand::enqueue_with(EnqueueKernel enqueue_kernel, std::span<const cl_event> wait_list,
                                  cl_event *event) {
    const cl_event held_by = hold_.until.get();
    check(enqueue_kernel(*links_->lane_, held_by != nullptr ? std::span(&held_by, 1) : wait_list,
                         event_.out()),
          "clEnqueueNDRangeKernel");
    if (event != nullptr) *event = Event::share(event_.get()).give();
    note_enqueued();
}

void OrderedCommand::enqueue(const SlotMove &move, std::span<const cl_event> wait_list,
                             cl_event *event) {
    const bool sends = direction_ == Direction::send;
    enqueue_with(
        [&](const DeviceLinks::Lane &lane, std::span<const cl_event> waits_for, cl_event *wanted) {
            return lane.kernels->enqueue(queue_, lane.slots->buffer(), sends ? &move : nullptr,
                                         sends ? nullptr : &move, waits_for, wanted);
        },
        wait_list, event);
}

void OrderedCommand::enqueue(const CollectiveWork &work, cl_kernel kernel, cl_mem in, cl_mem out,
                             std::span<const cl_event> wait_list, cl_event *event) {
    enqueue_with(
        [&](const DeviceLinks::Lane &lane, std::span<const cl_event> waits_for, cl_event *wanted) {
            return lane.collective_kernels->enqueue(
                queue_, kernel, work, lane.slots->buffer(), lane.kernels->shared(), place_.slot,
                static_cast<bool>(hold_.until), in, out, waits_for, wanted);
        },
        wait_list, event);
}

void OrderedCommand::enqueue_both(OrderedCommand &send, OrderedCommand &recv, const SlotMove &sent,
                                  const SlotMove &received, std::span<const cl_event> wait_list,
                                  cl_event *event) {
    send.enqueue_with(
        [&](const DeviceLinks::Lane &lane, std::span<const cl_event> waits_for, cl_event *wanted) {
            return lane.kernels->enqueue(send.queue_, lane.slots->buffer(), &sent, &received,
                                         waits_for, wanted);
        },
        wait_list, event);
    recv.note_enqueued();
}

SlotMove OrderedCommand::move_of(cl_mem buffer, std::size_t offset,
                                 const std::optional<RectRegion> &strided) const {
    const std::lock_guard lock(links_->mutex_);
    const UnfinishedKernels &unfinished = links_->unfinished_;
    const std::size_t queues = unfinished.queues() + (unfinished.in_queue(queue_) ? 0 : 1);
    const std::size_t full = links_->lane_->most_joining;
    const bool leaves_room = position_ == Position::at_call && queues > full;
    return {place_.slot,
            buffer,
            offset,
            place_.size,
            slot().address,
            strided,
            leaves_room ? std::max<std::size_t>(1, full / 2) : most_move_groups};
}

void OrderedCommand::note_enqueued() {
    stage_ = Stage::enqueued;
    const std::uint64_t now = now_ns();
    sample_.enqueued(now);
    if (position_ == Position::at_call) flush_if_needed(queue_);
    const std::lock_guard lock(links_->mutex_);
    failure_.check_later(now, links_->unfinished_.add(queue_));
}

OrderedCommand::~OrderedCommand() {
    if (stage_ == Stage::nothing) return;
    const bool reserved = stage_ == Stage::reserved;
    if (!reserved) static_cast<void>(ended());  // frees the slot unless the kernel may still use it
    const std::lock_guard lock(links_->mutex_);
    stop_joining();
    if (!reserved) return;
    SlotPool &slots = links_->lane_->slots->pool();
    if (direction_ == Direction::send)
        links_->peers_.at(peer_.world_rank).places.give_back(slots, place_);
    else
        slots.give_back(place_.slot);
}

bool OrderedCommand::may_post() const {
    const std::lock_guard lock(links_->mutex_);
    return !links_->held_.any_before(queue_, hold_.number, hold_.line);
}

void OrderedCommand::describe(MessageHeader &header) const {
    header.slot = place_.slot + 1;
    header.offset = place_.offset;
}

bool OrderedCommand::grant(int world_rank, const MessageHeader &header) {
    if (granted()) return true;
    {
        const std::lock_guard lock(links_->mutex_);
        const DeviceLinks::Peer *const peer = links_->peer_of(world_rank, header);
        if (peer == nullptr || header.size > place_.size) return false;
        peer_.world_rank = world_rank;
        peer_.slot = header.slot - 1;
        slot().address = peer->own_landing.address() + header.offset;
        slot().size = header.size;
        slot().flag = peer->memory->slots_address() + peer_.slot * sizeof(TransferSlot) +
                      offsetof(TransferSlot, sent);
    }
    give_order(SlotOrder::move);
    return true;
}

bool OrderedCommand::may_join(int world_rank, const MessageHeader &header) {
    const std::lock_guard lock(links_->mutex_);
    const DeviceLinks::Peer *const peer = links_->peer_of(world_rank, header);
    DeviceLinks::Lane &lane = *links_->lane_;
    if (peer == nullptr || lane.joining >= lane.most_joining ||
        peer->memory->slots()[header.slot - 1].running.load(std::memory_order_acquire) == 0)
        return false;
    ++lane.joining;
    return joins_ = true;
}

void OrderedCommand::stop_joining() {
    if (std::exchange(joins_, false)) --links_->lane_->joining;
}

void OrderedCommand::spoil() {
    slot().sent.store(TransferSlot::spoiled, std::memory_order_release);
}

void OrderedCommand::fail(cl_int code) {
    failure_.note();
    give_order(SlotOrder::leave, code);
    static_cast<void>(ended());
}

void OrderedCommand::give_order(SlotOrder order, cl_int status) {
    slot().order.store(order, std::memory_order_release);
    sample_.released(now_ns());
    if (!hold_.until) return;
    {
        const std::lock_guard lock(links_->mutex_);
        links_->held_.release(queue_, hold_.number);
    }
    // Without the lock, because the platform may call the program's callbacks.
    set_user_event(hold_.until.get(), status);
}

bool OrderedCommand::failed() {
    if (stage_ == Stage::ended) return failure_.found();
    return failure_.check({event_.get(), hold_.reached.get()}, [&] {
        const std::lock_guard lock(links_->mutex_);
        return links_->unfinished_.count();
    });
}

bool OrderedCommand::ended() {
    if (stage_ == Stage::ended) return true;
    if (slot().ended.load(std::memory_order_acquire) == 0 && !failed()) return false;
    stage_ = Stage::ended;
    const std::lock_guard lock(links_->mutex_);
    links_->unfinished_.remove(queue_);
    if (direction_ == Direction::send) {
        links_->peers_.at(peer_.world_rank).places.ended(place_);
        return true;
    }
    stop_joining();
    if (position_ == Position::at_start && !failure_.found())
        sample_.ended(links_->load_, place_.size);
    links_->lane_->slots->pool().give_back(place_.slot);
    if (peer_.world_rank != MPI_UNDEFINED) {
        TransferSlot &sender = links_->peers_.at(peer_.world_rank).memory->slots()[peer_.slot];
        spoiled_ = sender.sent.load(std::memory_order_acquire) == TransferSlot::spoiled;
        sender.taken.store(1, std::memory_order_release);
    }
    return true;
}

}  // namespace cldist
