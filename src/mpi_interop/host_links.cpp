#include "mpi_interop/host_links.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "mpi_interop/local_socket.hpp"
#include "mpi_interop/mpi_status.hpp"

namespace cldist {
namespace {

// The largest number of rings, and so of messages that use them at once, between two processes.
constexpr std::size_t most_rings = 4;
// While the receiver does not answer, check this often whether it still lives.
constexpr std::uint64_t check_again_ns = 10'000'000;

// The first message of a connection identifies the sender.
struct Greeting {
    int world_rank;
};

// The sender offers a ring or device memory with its descriptor. For a ring, the receiver answers
// with a note.
struct Note {
    std::uint32_t id;
    std::uint32_t usable;
    std::uint64_t exported;  // bytes of device memory; 0: the note is about a ring
    DeviceUuid device{};     // the device with the memory
};

void say_once(const std::string &what) {
    static_cast<void>(config());  // reads the log level if this is its first use
    static std::atomic_flag said;
    if (!said.test_and_set())
        log_info(
            "messages to processes of this host use MPI instead of shared memory: {} (logged once)",
            what);
}

Status system_failure(const char *what) {
    return {CL_OUT_OF_RESOURCES, fmt::format("{}: {}", what, std::strerror(errno)), MPI_SUCCESS,
            errno};
}

// All users of the host can see the names of sockets and connect to them.
bool made_by_same_user(int socket) {
    ucred maker{};
    socklen_t size = sizeof maker;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 &&
           maker.uid == geteuid();
}

}  // namespace

bool HostLink::lives() const {
    char byte = 0;
    const ssize_t bytes = recv(socket_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR));
}

HostLinks::HostLinks(MPI_Comm host, MPI_Comm world) {
    const int size = processes_in(host);
    own_.world_rank = rank_in(world);
    devices_ = std::make_shared<DeviceLinks>(own_.world_rank);
    own_.devices = devices_->name();
    socket_ = open_local_socket(own_.name);
    if (socket_) own_.length = sizeof own_.name;
    if (size > 1 && own_.length == 0)
        say_once(system_failure("this process cannot create a socket").message);
    std::vector<Address> all(static_cast<std::size_t>(size));
    check_mpi(PMPI_Allgather(&own_, sizeof own_, MPI_BYTE, all.data(), sizeof own_, MPI_BYTE, host),
              "MPI_Allgather");
    for (const Address &address : all)
        if (address.world_rank != own_.world_rank)
            devices_->add(address.world_rank, address.devices, all.front().name);
    if (own_.length == 0) return;
    for (const Address &address : all)
        if (address.length != 0)
            peers_.emplace(address.world_rank, Peer{address, nullptr, nullptr});
}

bool HostLinks::reach(int world_rank) const {
    return world_rank != own_.world_rank && peers_.find(world_rank) != peers_.end();
}

std::shared_ptr<HostLink> HostLinks::connect(Peer &peer) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        say_once(system_failure("socketpair").message);
        return nullptr;
    }
    auto link = std::make_shared<HostLink>(Descriptor(ends[0]));
    const Descriptor theirs(ends[1]);
    const Greeting greeting{own_.world_rank};
    socklen_t length = 0;
    const sockaddr_un address = address_of(peer.address.name, length);
    if (!send_with(socket_.get(), greeting, theirs.get(), &address, length)) {
        // If there are only too many connections at once, a later one may succeed.
        peer.hopeless = errno != EAGAIN && errno != ENOBUFS;
        say_once(system_failure("cannot connect to another process of the host").message);
        return nullptr;
    }
    return link;
}

std::shared_ptr<Ring> HostLinks::offer_ring(HostLink &link) {
    try {
        Descriptor memory;
        std::shared_ptr<Ring> ring = Ring::create(memory);
        if (!send_with(link.socket_.get(), Note{ring->id(), 1, 0}, memory.get())) {
            say_once(system_failure("passing shared memory to another process").message);
            return nullptr;
        }
        link.rings_.emplace(ring->id(), ring);
        return ring;
    } catch (const Error &error) {
        say_once(error.status().message);
        return nullptr;
    }
}

NearOffer NearWay::offer() const {
    return {place_.ring->id(),         exported_ != nullptr ? exported_->id() : 0,
            place_.is_range ? 1U : 0U, through_ring_.depth,
            through_ring_.block,       place_.offset};
}

std::unique_ptr<Endpoint> NearWay::far_end(int peer, Direction direction, std::size_t size,
                                           std::shared_ptr<Record> record) {
    RingPeer other{fmt::format("rank {}", peer), [link = link_] { return link->lives(); }};
    return std::make_unique<RingEndpoint>(place_.ring, std::move(other), direction, plan_, size,
                                          std::move(record));
}

std::optional<NearWay> HostLinks::open(int world_rank, const DeviceRange &range, const Plan &plan) {
    const std::lock_guard lock(mutex_);
    const auto at = peers_.find(world_rank);
    if (at == peers_.end()) return std::nullopt;
    Peer &peer = at->second;
    if (peer.out == nullptr && !peer.hopeless) peer.out = connect(peer);
    if (peer.out == nullptr) return std::nullopt;
    HostLink &link = *peer.out;
    take_answers(link);
    std::erase_if(link.rings_, [](const auto &ring) { return ring.second->closed(); });
    NearWay way;
    for (const auto &[id, ring] : link.rings_) {
        if (!ring->take()) continue;
        way.place_.ring = ring;
        break;
    }
    if (way.place_.ring == nullptr) {
        if (link.refused_ || link.rings_.size() >= most_rings) return std::nullopt;
        std::shared_ptr<Ring> ring = offer_ring(link);
        if (ring == nullptr || !ring->take()) return std::nullopt;
        way.place_.ring = std::move(ring);
    }
    way.link_ = peer.out;
    way.through_ring_ = plan;
    way.through_ring_.path = Path::shared;
    way.plan_ = way.through_ring_;
    if (plan.path == Path::peer_to_peer) export_memory(link, way, range, range.size);
    return way;
}

// If the memory can't be exported, the blocks use the ring's host memory.
void HostLinks::export_memory(HostLink &link, NearWay &way, const DeviceRange &range,
                              std::size_t size) {
    try {
        std::shared_ptr<ExportedMemory> memory = ExportedMemory::of(range.buffer.get());
        const bool exports_range = memory != nullptr;
        if (!exports_range)
            memory =
                way.place_.ring->landing(range.resources->context(), range.resources->device());
        if (link.exported_.find(memory->id()) == link.exported_.end()) {
            if (!send_with(link.socket_.get(),
                           Note{memory->id(), 1, memory->size(), memory->device()},
                           memory->descriptor())) {
                say_once(system_failure("passing a device's memory to another process").message);
                return;
            }
            link.exported_.insert(memory->id());
        }
        way.plan_ = plan_peer_to_peer(size, way.through_ring_, exports_range);
        way.place_.is_range = exports_range;
        way.place_.offset = exports_range ? range.offset : 0;
        if (!exports_range) way.place_.device = Mem::share(memory->buffer());
        way.exported_ = std::move(memory);
    } catch (const Error &error) {
        static std::atomic_flag said;
        if (!said.test_and_set())
            log_info(
                "devices of different processes cannot copy directly from each other: {} (logged "
                "once)",
                error.status().message);
    }
}

void HostLinks::take_answers(HostLink &link) {
    Note note{};
    Descriptor none;
    while (receive_with(link.socket_.get(), note, none)) link.answers_[note.id] = note.usable != 0;
}

std::optional<bool> HostLinks::settled(NearWay &way) {
    const std::lock_guard lock(mutex_);
    HostLink &link = *way.link_;
    Ring &ring = *way.place_.ring;
    auto answer = link.answers_.find(ring.id());
    if (answer == link.answers_.end()) {
        take_answers(link);
        answer = link.answers_.find(ring.id());
    }
    if (answer == link.answers_.end() || !answer->second) {
        // If the receiver has ended, MPI reports that.
        if (answer == link.answers_.end() && link.lives()) return std::nullopt;
        say_once("the receiver cannot use this process's shared memory");
        link.refused_ = true;
        return false;
    }
    if (way.exported_ == nullptr) return true;
    const DirectAnswer direct = ring.control().answer.load(std::memory_order_acquire);
    if (direct == DirectAnswer::yes) return true;
    if (direct == DirectAnswer::none) {
        const std::uint64_t now = now_ns();
        if (now < way.next_check_ns_) return std::nullopt;
        way.next_check_ns_ = now + check_again_ns;
        if (ring.control().given_up == 0 && link.lives()) return std::nullopt;
    }
    if (direct == DirectAnswer::unknown_memory) link.exported_.erase(way.exported_->id());
    way.plan_ = way.through_ring_;
    way.place_.is_range = false;
    return true;
}

void HostLinks::take_links() {
    Greeting greeting{};
    Descriptor socket;
    while (receive_with(socket_.get(), greeting, socket)) {
        const auto peer = peers_.find(greeting.world_rank);
        if (!socket)
            say_once(
                "a connection arrived without its descriptor; the limit of open files may be "
                "reached");
        else if (peer != peers_.end() && made_by_same_user(socket.get()))
            peer->second.in = std::make_shared<HostLink>(std::move(socket));
    }
}

void HostLinks::take_notes(HostLink &link, const DeviceRange &range) {
    Note note{};
    Descriptor descriptor;
    while (receive_with(link.socket_.get(), note, descriptor)) {
        if (!descriptor)
            say_once(
                "shared memory arrived without its descriptor; the limit of open files may be "
                "reached");
        if (note.exported != 0) {
            if (descriptor)
                link.imported_[note.id] = ImportedMemory::keep(std::make_shared<ImportedMemory>(
                    std::move(descriptor), static_cast<std::size_t>(note.exported), note.device));
            continue;
        }
        std::shared_ptr<Ring> ring;
        try {
            if (descriptor) ring = Ring::open(descriptor, note.id);
            // Lock the pages before the sender's first bytes arrive.
            if (ring != nullptr && range.resources != nullptr && !range.host_memory())
                range.resources->lock_pages(*ring);
        } catch (const Error &error) {
            say_once(error.status().message);
        }
        send_with(link.socket_.get(), Note{note.id, ring != nullptr ? 1U : 0U, 0}, -1);
        if (ring != nullptr) link.rings_.emplace(note.id, std::move(ring));
    }
}

Mem HostLinks::import(HostLink &link, const NearOffer &offer, const DeviceRange &range,
                      std::size_t size, DirectAnswer &answer) {
    answer = DirectAnswer::no;
    if (range.resources == nullptr || range.mapped != nullptr || range.strided || size > range.size)
        return {};
    if (host_path(config()) != Path::automatic && host_path(config()) != Path::peer_to_peer)
        return {};
    std::erase_if(link.imported_, [](const auto &imported) { return imported.second->closed(); });
    const auto at = link.imported_.find(offer.exported);
    if (at == link.imported_.end()) {
        answer = DirectAnswer::unknown_memory;
        return {};
    }
    if (host_path(config()) == Path::automatic && size < direct_on_one_device &&
        at->second->is_of(range.resources->device()))
        return {};
    if (offer.exports_range != 0 &&
        (offer.offset > at->second->size() || size > at->second->size() - offer.offset))
        return {};
    try {
        Mem memory = at->second->buffer(range.resources->context(), range.resources->device());
        answer = DirectAnswer::yes;
        return memory;
    } catch (const Error &error) {
        log_debug("data from another process's device moves through host memory: {}",
                  error.status().message);
        return {};
    }
}

std::optional<NearWay> HostLinks::accept(int world_rank, const NearOffer &offer,
                                         const DeviceRange &range, std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto at = peers_.find(world_rank);
    if (at == peers_.end() || !fits_ring(offer.block, offer.depth)) return std::nullopt;
    take_links();
    const std::shared_ptr<HostLink> &link = at->second.in;
    if (link == nullptr) return std::nullopt;
    std::erase_if(link->rings_, [](const auto &ring) { return ring.second->closed(); });
    take_notes(*link, range);
    const auto ring = link->rings_.find(offer.ring);
    if (ring == link->rings_.end() || !ring->second->take()) return std::nullopt;
    NearWay way;
    way.place_.ring = ring->second;
    way.link_ = link;
    way.through_ring_ = {Path::shared, static_cast<std::size_t>(offer.block), offer.depth};
    way.plan_ = way.through_ring_;
    if (offer.exported == 0) return way;
    DirectAnswer answer = DirectAnswer::no;
    way.place_.device = import(*link, offer, range, size, answer);
    if (answer == DirectAnswer::yes) {
        way.place_.is_range = offer.exports_range != 0;
        way.place_.offset = static_cast<std::size_t>(offer.offset);
        way.plan_ = plan_peer_to_peer(size, way.through_ring_, way.place_.is_range);
    }
    way.place_.ring->control().answer.store(answer, std::memory_order_release);
    return way;
}

}  // namespace cldist
