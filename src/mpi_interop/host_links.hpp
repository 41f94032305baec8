#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include <mpi.h>

#include "mpi_interop/device_links.hpp"
#include "mpi_interop/local_name.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/ring.hpp"
#include "pipeline/ring_endpoint.hpp"

namespace cldist {

/// A socket connection for messages to or from one other process of this host. The sender creates
/// it and sends descriptors of rings and device memory. The receiver answers whether it can use
/// each ring. If one process ends, the other sees the end of the connection.
class HostLink {
public:
    explicit HostLink(Descriptor socket) : socket_(std::move(socket)) {}

    /// Returns true if the other process has not ended. Any thread.
    [[nodiscard]] bool lives() const;

private:
    friend class HostLinks;

    Descriptor socket_;
    std::map<std::uint32_t, std::shared_ptr<Ring>> rings_;
    /// By id of an offered ring: true if the receiver can use it.
    std::map<std::uint32_t, bool> answers_;
    std::set<std::uint32_t> exported_;  ///< ids of device memory that the receiver knows
    std::map<std::uint32_t, std::shared_ptr<ImportedMemory>> imported_;
    bool refused_ = false;  ///< the other process could not use a ring
};

/// The sender's description of how the blocks of a message move.
struct NearOffer {
    std::uint32_t ring = 0;  ///< 0: the blocks use MPI
    /// As in MessageHeader; this also applies to the following members.
    std::uint32_t exported = 0;
    std::uint32_t exports_range = 0;
    std::uint32_t depth = 0;
    std::uint64_t block = 0;
    std::uint64_t offset = 0;
};
/// Returns true if `depth` blocks of `block` bytes fit into a ring.
[[nodiscard]] constexpr bool fits_ring(std::uint64_t block, std::uint32_t depth) {
    return block != 0 && depth != 0 && block <= ring_capacity && depth <= ring_capacity / block;
}

/// One end of a message that uses a ring between two processes of a host. It owns the ring's
/// reservation for this message.
class NearWay {
public:
    NearWay(NearWay &&other) noexcept = default;
    NearWay &operator=(NearWay &&other) noexcept = default;
    /// Gives the ring back unless place() was called. far_end()'s endpoint also gives it back.
    ~NearWay() {
        if (place_.ring != nullptr) place_.ring->give_back(false);
    }

    /// Only for a sender.
    [[nodiscard]] NearOffer offer() const;
    /// Final for a receiver, and for a sender after HostLinks::settled().
    [[nodiscard]] const Plan &plan() const { return plan_; }
    /// The far end of the blocks. `peer` is the other process's rank, for messages. Call it once.
    std::unique_ptr<Endpoint> far_end(int peer, Direction direction, std::size_t size,
                                      std::shared_ptr<Record> record);
    /// The place of the blocks. Only after far_end().
    SharedPlace place() { return std::move(place_); }

private:
    friend class HostLinks;
    NearWay() = default;

    SharedPlace place_;
    std::shared_ptr<HostLink> link_;
    /// Sender on path peer-to-peer: the memory that the receiver may import. Otherwise null.
    std::shared_ptr<ExportedMemory> exported_;
    Plan through_ring_;  ///< applies if the receiver does not import the memory
    Plan plan_;
    std::uint64_t next_check_ns_ = 0;  ///< when to check again whether the receiver lives
};

/// The processes of this host that can share rings with this process. Thread-safe. Only the
/// constructor waits for other processes.
class HostLinks {
public:
    /// Collective over `host`, the processes of this host. Ranks in `world` identify them.
    HostLinks(MPI_Comm host, MPI_Comm world);

    /// Returns true if `world_rank` is another process that can be reached.
    [[nodiscard]] bool reach(int world_rank) const;
    /// Returns true if two contexts of this process can share memory like two processes.
    [[nodiscard]] bool reach_itself() const { return own_.length != 0; }
    /// Device-ordered transfers to and from these processes.
    [[nodiscard]] const std::shared_ptr<DeviceLinks> &devices() const { return devices_; }

    /// Reserves a ring to send `range` with `plan`, which has path shared or peer-to-peer. Returns
    /// nothing if there is none. Errors are logged once.
    std::optional<NearWay> open(int world_rank, const DeviceRange &range, const Plan &plan);
    /// Returns whether the receiver can use the ring, or nothing until it has answered. The way's
    /// plan is final after the answer.
    std::optional<bool> settled(NearWay &way);
    /// Accepts a message of `size` bytes from that rank to `range`. Returns nothing if this process
    /// can't use the ring. The sender then learns of it.
    std::optional<NearWay> accept(int world_rank, const NearOffer &offer, const DeviceRange &range,
                                  std::size_t size);

private:
    struct Address {
        int world_rank;
        std::uint32_t length;  ///< bytes of the name; 0: the process has no socket
        LocalName name;
        LocalName devices;  ///< DeviceLinks::name()
    };
    struct Peer {
        Address address;
        std::shared_ptr<HostLink> out;  ///< for messages to the peer
        std::shared_ptr<HostLink> in;
        bool hopeless = false;  ///< it could not be reached
    };

    std::shared_ptr<HostLink> connect(Peer &peer);
    std::shared_ptr<Ring> offer_ring(HostLink &link);
    void take_links();
    static void take_notes(HostLink &link, const DeviceRange &range);
    static Mem import(HostLink &link, const NearOffer &offer, const DeviceRange &range,
                      std::size_t size, DirectAnswer &answer);
    static void export_memory(HostLink &link, NearWay &way, const DeviceRange &range,
                              std::size_t size);
    static void take_answers(HostLink &link);

    std::shared_ptr<DeviceLinks> devices_;
    std::mutex mutex_;
    Descriptor socket_;  ///< other processes connect to this socket
    Address own_{};
    std::map<int, Peer> peers_;  ///< by rank in `world`
};

}  // namespace cldist
