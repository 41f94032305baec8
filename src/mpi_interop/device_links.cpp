#include "mpi_interop/device_links.hpp"

#include <algorithm>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "mpi_interop/local_socket.hpp"
#include "ocl/query.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

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
    return !lane_ || unfinished_.queues() < lane_->most_queues;
}

bool DeviceLinks::is_busy() {
    const std::lock_guard lock(mutex_);
    return load_.is_heavy();
}

bool DeviceLinks::avoids_kernels() {
    const std::lock_guard lock(mutex_);
    return load_.avoids_kernels();
}

bool DeviceLinks::connected(int world_rank, const std::shared_ptr<DeviceResources> &resources) {
    if (resources->is_cpu() ? !requests_kernels(config().path) : !resources->exports())
        return false;
    if (resources->measures_advice()) return false;
    const std::lock_guard lock(mutex_);
    if (refused_ || peers_.empty()) return false;
    if (!lane_ && !open_lane(resources)) return false;
    // Also if all are ready, because a process may refuse or use the same device later.
    if (calls_++ % 64 == 0) take_notes();
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
        lane.most_queues = most_waiting_queues(resources->device());
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
        peer.own_landing.allocate(*lane_);
        const ExportedMemory &landing = *peer.own_landing.memory();
        const DeviceUuid device = uuid_of(resources.device());
        peer.offered =
            tell(peer, NoteKind::slots, device, TransferSlots::bytes, lane_->slots->descriptor()) &&
            (!has_arenas() || tell(peer, NoteKind::arenas, device, lane_->arenas->size(),
                                   lane_->arenas->descriptor())) &&
            tell(peer, NoteKind::landing, device, landing.size(), landing.descriptor());
    } catch (const Error &error) {
        refuse(error.status().message);
    }
}

void DeviceLinks::accept(Peer &peer) {
    if (peer.memory == nullptr || peer.told || refused_) return;
    try {
        if (addresses_known(peer)) peer.told = tell(peer, NoteKind::accepted);
    } catch (const Error &error) {
        refuse(error.status().message);
    }
}

bool DeviceLinks::addresses_known(Peer &peer) {
    return lane_->arenas_address.known() && peer.memory->addresses_known() &&
           peer.own_landing.address_known();
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
            if (note.bytes == TransferSlots::bytes) peer.offer.slots = std::move(descriptor);
            break;
        case NoteKind::arenas: peer.offer.arenas = std::move(descriptor); break;
        case NoteKind::landing:
            peer.offer.landing = std::move(descriptor);
            peer.offer.note = note;
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
    if (!lane_ || !peer.offer.complete() || peer.refused) return;
    const DeviceResources &resources = *lane_->resources;
    try {
        if (!resources.is_cpu() && peer.offer.note.device == uuid_of(resources.device()))
            throw Error(CL_INVALID_OPERATION, "the other process uses the same GPU");
        peer.memory = std::make_unique<PeerMemory>(std::move(peer.offer), *lane_);
        offer(peer);
        accept(peer);
    } catch (const Error &error) {
        peer.refused = true;
        log_info("kernels move no messages to rank {}: {}", peer.offer.note.world_rank,
                 error.status().message);
        tell(peer, NoteKind::refused);
    }
}

DeviceLinks::PeerMemory::PeerMemory(Offer &&offer, const Lane &lane)
    : slots_(lane.resources->context(), lane.resources->device(), std::move(offer.slots)),
      slots_address_(lane.kernels->address_of(*lane.slots, slots_.buffer())),
      landing_(std::move(offer.landing), static_cast<std::size_t>(offer.note.bytes),
               offer.note.device) {
    const auto address_of = [&](ImportedMemory &memory) {
        const Mem here = memory.buffer(lane.resources->context(), lane.resources->device());
        return lane.kernels->address_of(*lane.slots, here.get());
    };
    landing_address_ = address_of(landing_);
    if (!has_arenas()) return;
    arenas_.emplace(std::move(offer.arenas), arenas_bytes, offer.note.device);
    arenas_address_ = address_of(*arenas_);
}

void DeviceLinks::OwnLanding::allocate(const Lane &lane) {
    if (memory_ != nullptr) return;
    memory_ = ExportedMemory::create(lane.resources->context(), lane.resources->device(),
                                     CL_MEM_READ_WRITE, landing_bytes);
    address_ = lane.kernels->address_of(*lane.slots, memory_->buffer());
}

Mem DeviceLinks::OwnLanding::buffer(const DeviceResources &resources, const Lane &lane) {
    if (&resources == lane.resources.get()) return Mem::share(memory_->buffer());
    if (resources.is_cpu() != lane.resources->is_cpu()) return {};
    // The cleanup thread may close it as long as it is idle.
    if (elsewhere_ == nullptr || !elsewhere_->use())
        elsewhere_ = ImportedMemory::keep(memory_->imported());
    return elsewhere_->buffer(resources.context(), resources.device());
}

DeviceLinks::Arena DeviceLinks::Arenas::take() {
    for (std::size_t i = 0; i < taken_.size(); ++i)
        if (!std::exchange(taken_[i], true)) return {static_cast<int>(i), values_[i]};
    return {};
}

void DeviceLinks::Arenas::give(const Arena &arena) {
    const auto i = static_cast<std::size_t>(arena.index);
    values_[i] = arena.value;
    taken_[i] = false;
}

DeviceLinks::Arena DeviceLinks::take_arena() {
    const std::lock_guard lock(mutex_);
    return name_ != LocalName{} ? arenas_.take() : Arena{};
}

void DeviceLinks::give_arena(const Arena &arena) {
    const std::lock_guard lock(mutex_);
    if (lane_) lane_->slots->board(static_cast<std::size_t>(arena.index)).first = 0;
    arenas_.give(arena);
}

DeviceLinks::ArenaAddress DeviceLinks::address_of_arena(int world_rank, int index) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t first = world_rank == world_rank_
                                    ? lane_->arenas_address.get()
                                    : peers_.at(world_rank).memory->arenas_address();
    const auto i = static_cast<std::uint64_t>(index);
    return {first + TransferSlots::boards * flags_bytes + i * arena_space, first + i * flags_bytes};
}

CollectiveBoard &DeviceLinks::board(int world_rank, int index) {
    const std::lock_guard lock(mutex_);
    const TransferSlots &slots =
        world_rank == world_rank_ ? *lane_->slots : peers_.at(world_rank).memory->slots();
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
    const bool valid = at != peers_.end() && at->second.memory != nullptr &&
                       at->second.own_landing.memory() != nullptr && header.slot != 0 &&
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
    return peer->memory->slots()[header.slot - 1].sent.load(std::memory_order_acquire) != 0;
}

bool DeviceLinks::spoiled(int world_rank, const MessageHeader &header) {
    const std::lock_guard lock(mutex_);
    const Peer *const peer = peer_of(world_rank, header);
    return peer != nullptr && peer->memory->slots()[header.slot - 1].sent.load(
                                  std::memory_order_acquire) == TransferSlot::spoiled;
}

void DeviceLinks::read_landed(int world_rank, const MessageHeader &header, std::byte *to) {
    std::unique_lock lock(mutex_);
    const auto resources = lane_->resources;
    const auto landing = peer_of(world_rank, header)->own_landing.memory();
    lock.unlock();
    check(clEnqueueReadBuffer(resources->read_queue(), landing->buffer(), CL_TRUE, header.offset,
                              header.size, to, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
}

bool DeviceLinks::copy_landed(int world_rank, const MessageHeader &header, const DeviceRange &range,
                              DeviceCommand &command) {
    const std::lock_guard lock(mutex_);
    if (range.resources == nullptr || range.mapped != nullptr) return false;
    const Mem landing = peer_of(world_rank, header)->own_landing.buffer(*range.resources, *lane_);
    if (!landing) return false;
    start_copy(command, range, header.size, landing.get(), header.offset);
    return true;
}

void DeviceLinks::note_taken(int world_rank, const MessageHeader &header) {
    const std::lock_guard lock(mutex_);
    if (const Peer *const peer = peer_of(world_rank, header))
        peer->memory->slots()[header.slot - 1].taken.store(1, std::memory_order_release);
}

}  // namespace cldist
