#include "mpi_interop/device_links.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "mpi_interop/local_socket.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/plan.hpp"

namespace cldist {
namespace {

// The kernel's event is queried only if the kernel has not ended after this time.
constexpr std::uint64_t check_ns = 50000;

// The value of TransferSlot::sent after the sender's kernel has failed.
constexpr std::uint32_t spoiled_flag = 2;

}  // namespace

DeviceLinks::DeviceLinks(int world_rank) : world_rank_(world_rank) {
    if (!uses_kernels(config().path, most_bytes)) return;
    socket_ = open_local_socket(name_);
    const int on = 1;
    if (!socket_ || setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
        name_ = {};
}

void DeviceLinks::add(int world_rank, const LocalName &name, const LocalName &job) {
    job_ = job;
    if (name_ != LocalName{} && name != LocalName{}) peers_[world_rank].name = name;
}

void DeviceLinks::refuse(const std::string &why) {
    refused_ = true;
    log_info("kernels move no messages: {}", why);
    for (const auto &[rank, peer] : peers_) tell(peer, NoteKind::refused);
}

bool DeviceLinks::may_wait() {
    const std::lock_guard lock(mutex_);
    return waiting_.size() < most_queues;
}

bool DeviceLinks::connected(int world_rank, const std::shared_ptr<DeviceResources> &resources) {
    if (resources->is_cpu() ? !requests_kernels(config().path) : !resources->exports())
        return false;
    if (resources->measures_advice()) return false;
    const std::lock_guard lock(mutex_);
    if (refused_ || peers_.empty()) return false;
    if (!lane_ && !open_lane(resources)) return false;
    const auto usable = [](const auto &peer) { return peer.second.ready(); };
    if (world_rank == MPI_ANY_SOURCE) {
        if (std::none_of(peers_.begin(), peers_.end(), usable)) take_notes();
        for (auto &[rank, peer] : peers_) accept(peer);
        if (std::none_of(peers_.begin(), peers_.end(), usable)) return false;
    } else {
        const auto at = peers_.find(world_rank);
        if (at == peers_.end() || at->second.refused) return false;
        Peer &peer = at->second;
        if (!peer.ready()) {
            take_notes();
            offer(peer);
            accept(peer);
        }
        if (!peer.ready()) return false;
    }
    return lane_->resources == resources && !lane_->shared;
}

bool DeviceLinks::open_lane(const std::shared_ptr<DeviceResources> &resources) {
    try {
        Lane lane;
        lane.resources = resources;
        lane.slots = std::make_unique<TransferSlots>(resources->context(), resources->device());
        lane.kernels = std::make_unique<SlotKernels>(resources->context(), resources->device());
        if (!resources->is_cpu() && !claim(lane)) {
            for (auto &[rank, peer] : peers_)
                tell(peer, NoteKind::shared, uuid_of(resources->device()));
            refuse("another process of this job uses the same GPU");
            return false;
        }
        const auto units =
            query<cl_uint>(resources->device(), CL_DEVICE_MAX_COMPUTE_UNITS).value_or(1);
        lane.most_joining = std::max<std::size_t>(1, units / 32);
        if (has_arenas()) make_arenas(lane);
        lane_ = std::move(lane);
    } catch (const Error &error) {
        refuse(error.status().message);
        return false;
    }
    take_notes();
    for (auto &[rank, peer] : peers_) open_offer(peer);
    return lane_.has_value();
}

void DeviceLinks::make_arenas(Lane &lane) {
    const DeviceResources &resources = *lane.resources;
    lane.collective_kernels =
        std::make_unique<CollectiveKernels>(resources.context(), resources.device());
    lane.arenas = ExportedMemory::create(resources.context(), resources.device(), CL_MEM_READ_WRITE,
                                         arenas_bytes);
    // When the address is known, the flags are zero, because the queue is in-order.
    const cl_uint zero = 0;
    check(clEnqueueFillBuffer(lane.kernels->queue(), lane.arenas->buffer(), &zero, sizeof zero, 0,
                              TransferSlots::boards * flags_bytes, 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
    lane.arenas_address = lane.kernels->address_of(*lane.slots, lane.arenas->buffer());
}

// Returns true if no other process of the job uses the device. The first process binds a socket
// name that combines the job's name and the device's UUID.
bool DeviceLinks::claim(Lane &lane) {
    LocalName name = job_;
    const DeviceUuid device = uuid_of(lane.resources->device());
    for (std::size_t i = 0; i < name.size(); ++i)
        name[i] = static_cast<char>(name[i] ^ static_cast<char>(device[i % device.size()]));
    socklen_t length = 0;
    const sockaddr_un address = address_of(name, length);
    lane.claim = Descriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return lane.claim &&
           bind(lane.claim.get(), reinterpret_cast<const sockaddr *>(&address), length) == 0;
}

bool DeviceLinks::tell(const Peer &peer, NoteKind kind, const DeviceUuid &device,
                       std::uint64_t bytes, int descriptor) {
    socklen_t length = 0;
    const sockaddr_un address = address_of(peer.name, length);
    return send_with(socket_.get(), Note{kind, world_rank_, bytes, device}, descriptor, &address,
                     length);
}

void DeviceLinks::offer(Peer &peer) {
    if (peer.offered || peer.refused || !lane_ || lane_->shared) return;
    try {
        const DeviceResources &resources = *lane_->resources;
        if (peer.own_landing == nullptr) {
            peer.own_landing = ExportedMemory::create(resources.context(), resources.device(),
                                                      CL_MEM_READ_WRITE, landing_bytes);
            peer.own_landing_address =
                lane_->kernels->address_of(*lane_->slots, peer.own_landing->buffer());
        }
        const DeviceUuid device = uuid_of(resources.device());
        peer.offered =
            tell(peer, NoteKind::slots, device, TransferSlots::bytes, lane_->slots->descriptor()) &&
            (!has_arenas() || tell(peer, NoteKind::arenas, device, lane_->arenas->size(),
                                   lane_->arenas->descriptor())) &&
            tell(peer, NoteKind::landing, device, peer.own_landing->size(),
                 peer.own_landing->descriptor());
    } catch (const Error &error) {
        refuse(error.status().message);
    }
}

void DeviceLinks::accept(Peer &peer) {
    if (peer.slots == nullptr || peer.told || refused_) return;
    try {
        if (addresses_known(peer)) peer.told = tell(peer, NoteKind::accepted);
    } catch (const Error &error) {
        refuse(error.status().message);
    }
}

bool DeviceLinks::addresses_known(Peer &peer) {
    return lane_->arenas_address.known() && peer.slots_address.known() &&
           peer.landing_address.known() && peer.arenas_address.known() &&
           peer.own_landing_address.known();
}

void DeviceLinks::take_notes() {
    Note note{};
    Descriptor descriptor;
    uid_t sender = static_cast<uid_t>(-1);
    // All users of the host can send to the socket.
    while (receive_with(socket_.get(), note, descriptor, &sender))
        if (sender == geteuid()) take_note(note, std::move(descriptor));
}

void DeviceLinks::take_note(const Note &note, Descriptor descriptor) {
    const auto at = peers_.find(note.world_rank);
    if (at == peers_.end()) return;
    Peer &peer = at->second;
    switch (note.kind) {
        case NoteKind::slots:
            if (note.bytes == TransferSlots::bytes) peer.slots_offer = std::move(descriptor);
            break;
        case NoteKind::arenas: peer.arenas_offer = std::move(descriptor); break;
        case NoteKind::landing:
            peer.landing_offer = std::move(descriptor);
            peer.offer = note;
            open_offer(peer);
            break;
        case NoteKind::accepted: peer.accepted = true; break;
        case NoteKind::refused: peer.refused = true; break;
        case NoteKind::shared:
            if (lane_ && note.device == uuid_of(lane_->resources->device())) lane_->shared = true;
            break;
        default: break;
    }
}

void DeviceLinks::open_offer(Peer &peer) {
    if (!lane_ || !peer.slots_offer || !peer.landing_offer || peer.refused) return;
    if (has_arenas() && !peer.arenas_offer) return;
    const DeviceResources &resources = *lane_->resources;
    try {
        if (!resources.is_cpu() && peer.offer.device == uuid_of(resources.device()))
            throw Error(CL_INVALID_OPERATION, "the other process uses the same GPU");
        auto slots = std::make_unique<TransferSlots>(resources.context(), resources.device(),
                                                     std::move(peer.slots_offer));
        peer.slots_address = lane_->kernels->address_of(*lane_->slots, slots->buffer());
        peer.landing = std::make_shared<ImportedMemory>(std::move(peer.landing_offer),
                                                        static_cast<std::size_t>(peer.offer.bytes),
                                                        peer.offer.device);
        const Mem landing = peer.landing->buffer(resources.context(), resources.device());
        peer.landing_address = lane_->kernels->address_of(*lane_->slots, landing.get());
        if (has_arenas()) {
            peer.arenas = std::make_shared<ImportedMemory>(std::move(peer.arenas_offer),
                                                           arenas_bytes, peer.offer.device);
            const Mem arenas = peer.arenas->buffer(resources.context(), resources.device());
            peer.arenas_address = lane_->kernels->address_of(*lane_->slots, arenas.get());
        }
        peer.slots = std::move(slots);
        offer(peer);
        accept(peer);
    } catch (const Error &error) {
        peer.refused = true;
        log_info("kernels move no messages to rank {}: {}", peer.offer.world_rank,
                 error.status().message);
        tell(peer, NoteKind::refused);
    }
}

DeviceLinks::Arena DeviceLinks::take_arena() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < arenas_taken_.size() && name_ != LocalName{}; ++i) {
        if (std::exchange(arenas_taken_[i], true)) continue;
        return {static_cast<int>(i), arena_values_[i]};
    }
    return {};
}

void DeviceLinks::give_arena(const Arena &arena) {
    const std::lock_guard lock(mutex_);
    const auto i = static_cast<std::size_t>(arena.index);
    arena_values_[i] = arena.value;
    if (lane_) lane_->slots->board(i).first = 0;
    arenas_taken_[i] = false;
}

DeviceLinks::ArenaAddress DeviceLinks::address_of_arena(int world_rank, int index) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t first =
        (world_rank == world_rank_ ? lane_->arenas_address : peers_.at(world_rank).arenas_address)
            .get();
    const auto i = static_cast<std::uint64_t>(index);
    return {first + TransferSlots::boards * flags_bytes + i * arena_space, first + i * flags_bytes};
}

CollectiveBoard &DeviceLinks::board(int world_rank, int index) {
    const std::lock_guard lock(mutex_);
    const TransferSlots &slots =
        world_rank == world_rank_ ? *lane_->slots : *peers_.at(world_rank).slots;
    return slots.board(static_cast<std::size_t>(index));
}

cl_kernel DeviceLinks::prepare(const CollectiveWork &work,
                               const CollectiveKernels::Combination &combination) {
    try {
        return lane_->collective_kernels->prepare(work, combination);
    } catch (const Error &error) {
        log_info("a collective does not use path device: {}", error.status().message);
        return nullptr;
    }
}

// Null if the header does not describe memory that this process shares with the peer.
DeviceLinks::Peer *DeviceLinks::peer_of(int world_rank, const MessageHeader &header) {
    const auto at = peers_.find(world_rank);
    const bool valid = at != peers_.end() && at->second.slots != nullptr &&
                       at->second.own_landing != nullptr && header.slot != 0 &&
                       header.slot <= TransferSlots::count && header.size <= most_bytes &&
                       header.offset <= landing_bytes - header.size;
    return valid ? &at->second : nullptr;
}

bool DeviceLinks::landed(int world_rank, const MessageHeader &header) {
    const std::lock_guard lock(mutex_);
    const Peer *const peer = peer_of(world_rank, header);
    if (peer == nullptr)
        throw Error(CL_MESSAGE_NOT_RECOGNIZED,
                    "the message is in device memory that the processes have not agreed on");
    return (*peer->slots)[header.slot - 1].sent.load(std::memory_order_acquire) != 0;
}

bool DeviceLinks::spoiled(int world_rank, const MessageHeader &header) {
    const std::lock_guard lock(mutex_);
    const Peer *const peer = peer_of(world_rank, header);
    return peer != nullptr &&
           (*peer->slots)[header.slot - 1].sent.load(std::memory_order_acquire) == spoiled_flag;
}

void DeviceLinks::read_landed(int world_rank, const MessageHeader &header, std::byte *to) {
    std::unique_lock lock(mutex_);
    const auto resources = lane_->resources;
    const auto landing = peer_of(world_rank, header)->own_landing;
    lock.unlock();
    check(clEnqueueReadBuffer(resources->read_queue(), landing->buffer(), CL_TRUE, header.offset,
                              header.size, to, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
}

// The landing memory in the context of `resources`. Null if its device can't use it.
Mem DeviceLinks::landing_for(Peer &peer, const DeviceResources &resources) {
    if (&resources == lane_->resources.get()) return Mem::share(peer.own_landing->buffer());
    if (resources.is_cpu() != lane_->resources->is_cpu()) return {};
    if (peer.own_landing_elsewhere == nullptr || peer.own_landing_elsewhere->closed())
        peer.own_landing_elsewhere = ImportedMemory::keep(peer.own_landing->imported());
    return peer.own_landing_elsewhere->buffer(resources.context(), resources.device());
}

bool DeviceLinks::copy_landed(int world_rank, const MessageHeader &header, const DeviceRange &range,
                              DeviceCommand &command) {
    const std::lock_guard lock(mutex_);
    if (range.resources == nullptr || range.mapped != nullptr) return false;
    const Mem landing = landing_for(*peer_of(world_rank, header), *range.resources);
    if (!landing) return false;
    start_copy(command, range, header.size, landing.get(), header.offset);
    return true;
}

void DeviceLinks::note_taken(int world_rank, const MessageHeader &header) {
    const std::lock_guard lock(mutex_);
    if (const Peer *const peer = peer_of(world_rank, header))
        (*peer->slots)[header.slot - 1].taken.store(1, std::memory_order_release);
}

OrderedCommand::OrderedCommand(std::shared_ptr<DeviceLinks> links, Direction direction,
                               std::size_t size, Position position, const void *line)
    : links_(std::move(links)),
      direction_(direction),
      size_(size),
      position_(position),
      line_(line) {}

TransferSlot &OrderedCommand::slot() const { return (*links_->lane_->slots)[*index_]; }

bool OrderedCommand::reserve(int world_rank, cl_command_queue queue) {
    const std::lock_guard lock(links_->mutex_);
    queue_ = queue;
    SlotPool &slots = links_->lane_->slots->pool();
    if (direction_ != Direction::send) return (index_ = slots.take()).has_value();
    DeviceLinks::Peer &peer = links_->peers_.at(world_rank);
    const std::optional<LandingPlace> place = peer.places.take(slots, size_);
    if (!place) return false;
    index_ = place->slot;
    world_rank_ = world_rank;
    landing_ = place->offset;
    slot().address = peer.landing_address.get() + landing_;
    return true;
}

void OrderedCommand::follow() {
    const std::lock_guard lock(links_->mutex_);
    number_ = links_->held_.next();
}

void OrderedCommand::hold(const QueueInfo &queue, std::span<const cl_event> wait_list) {
    check(
        clEnqueueMarkerWithWaitList(queue.queue, static_cast<cl_uint>(wait_list.size()),
                                    wait_list.empty() ? nullptr : wait_list.data(), reached_.out()),
        "clEnqueueMarkerWithWaitList");
    waits_ = !wait_list.empty();
    held_by_ = create("clCreateUserEvent", clCreateUserEvent, queue.context);
    const std::lock_guard lock(links_->mutex_);
    number_ = links_->held_.hold(queue.queue, line_);
}

// `enqueue_kernel` gets the wait list and the event of the kernel.
template <typename EnqueueKernel>
void OrderedCommand::enqueue_with(EnqueueKernel enqueue_kernel, std::span<const cl_event> wait_list,
                                  cl_event *event) {
    const cl_event held_by = held_by_.get();
    waits_ = waits_ || !wait_list.empty() || position_ == Position::at_start;
    cl_event *const wanted = event == nullptr && waits_ ? event_.out() : event;
    check(enqueue_kernel(*links_->lane_, held_by != nullptr ? std::span(&held_by, 1) : wait_list,
                         wanted),
          "clEnqueueNDRangeKernel");
    if (event != nullptr && waits_) event_ = Event::share(*event);
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
                queue_, kernel, work, lane.slots->buffer(), lane.kernels->shared(), *index_,
                static_cast<bool>(held_by_), in, out, waits_for, wanted);
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
    return {*index_, buffer, offset, size_, slot().address, strided};
}

void OrderedCommand::note_enqueued() {
    enqueued_ = true;
    next_check_ns_ = now_ns() + check_ns;
    if (position_ == Position::at_call) flush_if_needed(queue_);
    const std::lock_guard lock(links_->mutex_);
    ++links_->waiting_[queue_];
}

OrderedCommand::~OrderedCommand() {
    if (!index_) return;
    if (enqueued_) static_cast<void>(ended());  // frees the slot unless the kernel may still use it
    const std::lock_guard lock(links_->mutex_);
    stop_joining();
    if (enqueued_) return;
    SlotPool &slots = links_->lane_->slots->pool();
    if (direction_ == Direction::send)
        links_->peers_.at(world_rank_).places.give_back(slots, place());
    else
        slots.give_back(*index_);
}

bool OrderedCommand::may_post() const {
    const std::lock_guard lock(links_->mutex_);
    return !links_->held_.any_before(queue_, number_, line_);
}

void OrderedCommand::describe(MessageHeader &header) const {
    header.slot = *index_ + 1;
    header.offset = landing_;
}

bool OrderedCommand::grant(int world_rank, const MessageHeader &header) {
    if (granted_) return true;
    {
        const std::lock_guard lock(links_->mutex_);
        const DeviceLinks::Peer *const peer = links_->peer_of(world_rank, header);
        if (peer == nullptr || header.size > size_) return false;
        granted_ = true;
        world_rank_ = world_rank;
        peer_slot_ = header.slot - 1;
        slot().address = peer->own_landing_address.get() + header.offset;
        slot().size = header.size;
        slot().flag = peer->slots_address.get() + peer_slot_ * sizeof(TransferSlot) +
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
        (*peer->slots)[header.slot - 1].running.load(std::memory_order_acquire) == 0)
        return false;
    ++lane.joining;
    return joins_ = true;
}

void OrderedCommand::stop_joining() {
    if (std::exchange(joins_, false)) --links_->lane_->joining;
}

void OrderedCommand::spoil() { slot().sent.store(spoiled_flag, std::memory_order_release); }

void OrderedCommand::fail(cl_int code) {
    failed_ = true;
    give_order(SlotOrder::leave, code);
    static_cast<void>(ended());
}

void OrderedCommand::give_order(SlotOrder order, cl_int status) {
    slot().order.store(order, std::memory_order_release);
    if (!held_by_) return;
    {
        const std::lock_guard lock(links_->mutex_);
        links_->held_.release(queue_, number_);
    }
    // Without the lock, because the platform may call the program's callbacks.
    set_user_event(held_by_.get(), status);
}

bool OrderedCommand::failed() const {
    if (failed_ || ended_ || !waits_) return failed_;
    return (event_ && execution_status(event_.get()) < 0) ||
           (reached_ && execution_status(reached_.get()) < 0);
}

bool OrderedCommand::ended() {
    if (ended_) return true;
    if (slot().ended.load(std::memory_order_acquire) == 0 && !failed_) {
        const std::uint64_t now = now_ns();
        if (now < next_check_ns_) return false;
        next_check_ns_ = now + check_ns;
        failed_ = failed();
        if (!failed_) return false;
    }
    ended_ = true;
    const std::lock_guard lock(links_->mutex_);
    if (const auto at = links_->waiting_.find(queue_); --at->second == 0)
        links_->waiting_.erase(at);
    if (direction_ == Direction::send) {
        links_->peers_.at(world_rank_).places.ended(place());
        return true;
    }
    stop_joining();
    links_->lane_->slots->pool().give_back(*index_);
    if (world_rank_ != MPI_UNDEFINED) {
        TransferSlot &sender = (*links_->peers_.at(world_rank_).slots)[peer_slot_];
        spoiled_ = sender.sent.load(std::memory_order_acquire) == spoiled_flag;
        sender.taken.store(1, std::memory_order_release);
    }
    return true;
}

}  // namespace cldist
