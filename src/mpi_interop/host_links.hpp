#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <mpi.h>

#include "pipeline/device_endpoint.hpp"
#include "pipeline/ring.hpp"
#include "pipeline/ring_endpoint.hpp"

namespace cldist {

/// A connection to another process of this host, made by the one that sends. Descriptors of rings go one way, answers
/// whether the rings can be used the other way; its end tells each side of the other's end.
class HostLink {
public:
    explicit HostLink(Descriptor socket) : socket_(std::move(socket)) {}

    /// Whether the other process has not ended. Any thread.
    [[nodiscard]] bool lives() const;

private:
    friend class HostLinks;

    Descriptor socket_;
    std::map<std::uint32_t, std::shared_ptr<Ring>> rings_;
    std::map<std::uint32_t, bool> answers_;  ///< of rings that were offered: whether the other side can use them
    std::set<std::uint32_t> exported_;       ///< ids of the memory that was passed on
    std::map<std::uint32_t, std::shared_ptr<ImportedMemory>> imported_;
    bool refused_ = false;  ///< the other side could not use one
};

/// What a sender tells its receiver of the way that the blocks of a message take.
struct NearOffer {
    std::uint32_t ring = 0;      ///< 0: they come by MPI
    std::uint32_t exported = 0;  ///< as in Envelope, as is all that follows
    std::uint32_t whole = 0;
    std::uint32_t depth = 0;
    std::uint64_t block = 0;
    std::uint64_t offset = 0;
};
/// Whether blocks of that size fit, as many, into a ring.
[[nodiscard]] constexpr bool fits_ring(std::uint64_t block, std::uint32_t depth) {
    return block != 0 && depth != 0 && block <= ring_capacity && depth <= ring_capacity / block;
}

/// One end's part in a message between two processes of a host that passes through a ring, which was taken for it.
class NearWay {
public:
    NearWay(NearWay &&other) noexcept = default;
    NearWay &operator=(NearWay &&other) noexcept = default;
    /// Gives the ring back, unless the far end has it.
    ~NearWay() {
        if (place_.ring != nullptr) place_.ring->give_back(false);
    }

    /// A sender's.
    [[nodiscard]] NearOffer offer() const;
    /// Once it is settled: what is done.
    [[nodiscard]] const Plan &plan() const { return plan_; }
    /// The far end of the blocks, and where they lie; `peer` is the other's rank, for messages. Once.
    std::unique_ptr<Endpoint> far_end(int peer, Direction direction, std::size_t size, std::shared_ptr<Record> record);
    /// After far_end().
    SharedPlace place() { return std::move(place_); }

private:
    friend class HostLinks;
    NearWay() = default;

    SharedPlace place_;
    std::shared_ptr<HostLink> link_;
    std::shared_ptr<ExportedMemory> exported_;  ///< of a sender whose receiver has not said whether it can import it
    Plan through_ring_;
    Plan plan_;
    std::uint64_t look_ns_ = 0;  ///< when to look next whether the receiver lives
};

/// The processes of this host that rings can be shared with. Thread-safe. Nothing here waits for another process, but the
/// constructor.
class HostLinks {
public:
    /// Collective over `host`, the processes of this host. `world` numbers them.
    HostLinks(MPI_Comm host, MPI_Comm world);

    /// Whether that rank, another one, may be reached.
    [[nodiscard]] bool reach(int world_rank) const;
    /// Whether this process can share memory with itself, between two contexts: like with another one.
    [[nodiscard]] bool reach_itself() const { return own_.length != 0; }

    /// For `range`, to be sent to that rank as planned, on path shared or direct. Nothing if there can be no ring, the cause
    /// of which is said once.
    std::optional<NearWay> open(int world_rank, const DeviceRange &range, const Plan &plan);
    /// Whether the receiver can use the ring; nothing as long as it has not said so. Then the plan holds.
    std::optional<bool> settled(NearWay &way);
    /// For a message of `size` bytes from that rank, to `range`. Nothing if this process can't have the ring, which the
    /// sender learns.
    std::optional<NearWay> accept(int world_rank, const NearOffer &offer, const DeviceRange &range, std::size_t size);

private:
    struct Address {
        int world_rank;
        std::uint32_t length;  ///< bytes of the name; 0: the process has no socket
        char name[32];
    };
    struct Peer {
        Address address;
        std::shared_ptr<HostLink> out;  ///< for what is sent to it
        std::shared_ptr<HostLink> in;
        bool hopeless = false;  ///< it could not be reached
    };

    std::shared_ptr<HostLink> connect(Peer &peer);
    std::shared_ptr<Ring> offer_ring(HostLink &link);
    void take_links();
    static void take_notes(HostLink &link, const DeviceRange &range);
    static Mem import(HostLink &link, const NearOffer &offer, const DeviceRange &range, std::size_t size,
                      DirectAnswer &answer);
    static void export_memory(HostLink &link, NearWay &way, const DeviceRange &range, std::size_t size);
    static void take_answers(HostLink &link);

    std::mutex mutex_;
    Descriptor socket_;  ///< of this process: connections come through it
    Address own_{};
    std::map<int, Peer> peers_;  ///< by rank of `world`
};

}  // namespace cldist
