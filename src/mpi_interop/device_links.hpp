#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <mpi.h>

#include "base/config.hpp"
#include "events/record.hpp"
#include "mpi_interop/device_load.hpp"
#include "mpi_interop/held_commands.hpp"
#include "mpi_interop/local_name.hpp"
#include "mpi_interop/wire.hpp"
#include "ocl/query.hpp"
#include "pipeline/collective_kernels.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/slot_kernels.hpp"
#include "pipeline/transfer_slots.hpp"

namespace cldist {

class OrderedCommand;

/// Transfers between the devices of this host's processes by kernels, which write to memory of the
/// other device and, on path device, wait for flags in shared host memory. Active in one context
/// per process, on NVIDIA GPUs that only one process of the job uses, and with CLDIST_PATH=device
/// and CLDIST_PATH=kernel also on CPU devices. Thread-safe.
class DeviceLinks {
public:
    /// The largest message, in bytes.
    static constexpr std::size_t most_bytes = std::size_t{32} << 20U;

    /// Opens the socket for the other processes, if kernels should move bytes.
    explicit DeviceLinks(int world_rank);
    /// The name of the socket. All zero if there is none.
    [[nodiscard]] const LocalName &name() const { return name_; }
    /// Adds another process. Call it before the first command. `job` is equal in all processes of
    /// the job on this host.
    void add(int world_rank, const LocalName &name, const LocalName &job);

    /// Returns true if kernels on the device can exchange messages with the process, or for
    /// MPI_ANY_SOURCE can receive from some process. Otherwise prepares this, if possible.
    bool connected(int world_rank, const std::shared_ptr<DeviceResources> &resources);
    /// Returns true if one more queue may have unfinished kernels.
    [[nodiscard]] bool may_wait();
    /// See DeviceLoad.
    [[nodiscard]] bool is_busy();
    /// The same. Call it once for each message that kernels can move.
    [[nodiscard]] bool avoids_kernels();

    // For collectives. Each communicator uses its own arena in each process.

    /// Bytes in each arena for the pieces of all members.
    static constexpr std::size_t arena_space = std::size_t{128} << 20U;
    struct Arena {
        int index = -1;           ///< -1: none
        std::uint32_t value = 0;  ///< initial value of the flags, which only grow
    };
    /// Takes an arena of this process; index -1 if none is free. give_arena() frees it.
    Arena take_arena();
    void give_arena(const Arena &arena);
    struct ArenaAddress {
        std::uint64_t space;
        std::uint64_t flags;
    };
    /// The addresses, in kernels, of an arena of any process. Only after connected().
    [[nodiscard]] ArenaAddress address_of_arena(int world_rank, int index);
    [[nodiscard]] CollectiveBoard &board(int world_rank, int index);
    /// Returns the kernel for the work, which it builds if necessary. Null if the build fails.
    cl_kernel prepare(const CollectiveWork &work,
                      const CollectiveKernels::Combination &combination);
    /// A placeholder buffer for collectives without data.
    [[nodiscard]] cl_mem some_buffer() const { return lane_->arenas->buffer(); }
    [[nodiscard]] bool is_cpu() const { return lane_ && lane_->resources->is_cpu(); }

    // For receives by the host of messages whose header has a slot.

    /// Returns true if the bytes have arrived in landing memory, or will never arrive. Throws an
    /// Error if the header is invalid.
    [[nodiscard]] bool landed(int world_rank, const MessageHeader &header);
    /// Returns true if the bytes will never arrive, because the sender's kernel has failed.
    [[nodiscard]] bool spoiled(int world_rank, const MessageHeader &header);
    /// Reads the bytes. Throws an Error.
    void read_landed(int world_rank, const MessageHeader &header, std::byte *to);
    /// Starts the copy of the bytes to the range. Returns false if that is impossible.
    bool copy_landed(int world_rank, const MessageHeader &header, const DeviceRange &range,
                     DeviceCommand &command);
    /// Lets the sender reuse its slot and the landing memory.
    void note_taken(int world_rank, const MessageHeader &header);

private:
    friend class OrderedCommand;

    /// Bytes of landing memory: memory of the receiver's device for messages of one sender. The
    /// sender allocates from it, so no send waits for its receive.
    static constexpr std::size_t landing_bytes = std::size_t{64} << 20U;

    enum class NoteKind : std::uint32_t {
        nothing,
        slots,
        arenas,
        landing,
        accepted,
        refused,
        shared
    };
    /// The flags of one arena. The flags of all arenas precede the arenas' space.
    static constexpr std::size_t flags_bytes =
        CollectiveWork::most_members * CollectiveKernels::flags_bytes;
    /// NVIDIA's driver (580) crashes when a command writes to imported memory of over 512 MiB.
    static constexpr std::size_t arenas_bytes = TransferSlots::boards * (flags_bytes + arena_space);
    /// The free arenas of this process. Not thread-safe.
    class Arenas {
    public:
        Arena take();
        void give(const Arena &arena);

    private:
        std::array<bool, TransferSlots::boards> taken_{};
        std::array<std::uint32_t, TransferSlots::boards> values_{};
    };
    struct Note {
        NoteKind kind;
        int world_rank;
        std::uint64_t bytes;
        DeviceUuid device;
    };
    struct Lane;
    /// What a peer has offered, until it is opened.
    struct Offer {
        Descriptor slots;
        Descriptor arenas;
        Descriptor landing;
        Note note{};  ///< about the landing memory, which a peer offers last

        [[nodiscard]] bool complete() const {
            return slots && landing && (arenas || !has_arenas());
        }
    };
    /// Memory of a peer, for sends to it.
    class PeerMemory {
    public:
        /// Opens the memory. Throws an Error.
        PeerMemory(Offer &&offer, const Lane &lane);
        /// The addresses may be used when this returns true. Throws an Error.
        [[nodiscard]] bool addresses_known() {
            return slots_address_.known() && landing_address_.known() && arenas_address_.known();
        }
        [[nodiscard]] const TransferSlots &slots() const { return slots_; }
        [[nodiscard]] std::uint64_t slots_address() const { return slots_address_.get(); }
        [[nodiscard]] std::uint64_t landing_address() const { return landing_address_.get(); }
        [[nodiscard]] std::uint64_t arenas_address() const { return arenas_address_.get(); }

    private:
        TransferSlots slots_;
        KernelAddress slots_address_;
        ImportedMemory landing_;
        KernelAddress landing_address_;
        std::optional<ImportedMemory> arenas_;
        KernelAddress arenas_address_;
    };
    /// Landing memory of this process, for receives from one peer.
    class OwnLanding {
    public:
        /// Allocates the memory unless this was done before. Throws an Error.
        void allocate(const Lane &lane);
        /// Null before allocate().
        [[nodiscard]] const std::shared_ptr<ExportedMemory> &memory() const { return memory_; }
        /// The address may be used when this returns true. Throws an Error.
        [[nodiscard]] bool address_known() { return address_.known(); }
        [[nodiscard]] std::uint64_t address() const { return address_.get(); }
        /// The memory in the context of `resources`. Null if its device can't use it.
        [[nodiscard]] Mem buffer(const DeviceResources &resources, const Lane &lane);

    private:
        std::shared_ptr<ExportedMemory> memory_;
        KernelAddress address_;
        /// The same memory for other contexts and devices of this process; null until needed.
        std::shared_ptr<ImportedMemory> elsewhere_;
    };
    struct Peer {
        LocalName name{};
        bool offered = false;   ///< slots and memory were sent to the peer
        bool accepted = false;  ///< the peer can use what this process has offered
        /// The peer knows that this process can use its offer. All addresses are known.
        bool told = false;
        bool refused = false;
        Offer offer;
        std::unique_ptr<PeerMemory> memory;  ///< null until the offer is opened
        LandingPlaces places{landing_bytes};
        OwnLanding own_landing;

        [[nodiscard]] bool ready() const { return accepted && told; }
    };
    /// The context whose commands can be device-ordered.
    struct Lane {
        std::shared_ptr<DeviceResources> resources;
        std::unique_ptr<TransferSlots> slots;
        std::unique_ptr<SlotKernels> kernels;
        std::unique_ptr<CollectiveKernels> collective_kernels;
        std::shared_ptr<ExportedMemory> arenas;  ///< this process's; all processes write to them
        KernelAddress arenas_address;
        Descriptor claim;     ///< shows other processes that this process uses the device
        bool shared = false;  ///< another process uses the device, too
        /// So many kernels of receives may wait with all their work-groups: two work-groups per
        /// multiprocessor, which has room for at least six.
        std::size_t most_joining = 1;
        std::size_t joining = 0;
        /// So many queues may have unfinished kernels. They keep at most a quarter of the channels,
        /// because commands of other queues that wait for them keep a channel, too.
        std::size_t most_queues = 0;
    };

    /// Returns true if kernels may carry out collectives.
    [[nodiscard]] static bool has_arenas() { return config().path == Path::device; }
    bool open_lane(const std::shared_ptr<DeviceResources> &resources);
    static void make_arenas(Lane &lane);
    bool claim(Lane &lane);
    void take_notes();
    void take_note(const Note &note, Descriptor descriptor);
    void open_offer(Peer &peer);
    // If the other process's socket is full, the next command tries again.
    void offer(Peer &peer);
    void accept(Peer &peer);
    [[nodiscard]] bool addresses_known(Peer &peer);
    bool tell(const Peer &peer, NoteKind kind, const DeviceUuid &device = {},
              std::uint64_t bytes = 0, int descriptor = -1);
    void refuse(const std::string &why);
    [[nodiscard]] Peer *peer_of(int world_rank, const MessageHeader &header);

    std::mutex mutex_;
    const int world_rank_;
    LocalName name_{};
    Descriptor socket_;
    LocalName job_{};
    std::map<int, Peer> peers_;
    std::optional<Lane> lane_;
    bool refused_ = false;
    unsigned calls_ = 0;  ///< of connected()
    UnfinishedKernels unfinished_;
    HeldCommands held_;
    DeviceLoad load_;
    Arenas arenas_;
};

}  // namespace cldist
