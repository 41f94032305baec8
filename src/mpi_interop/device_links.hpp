#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <mpi.h>

#include "base/config.hpp"
#include "events/bridge.hpp"
#include "events/record.hpp"
#include "mpi_interop/held_commands.hpp"
#include "mpi_interop/local_name.hpp"
#include "mpi_interop/wire.hpp"
#include "ocl/query.hpp"
#include "pipeline/collective_kernels.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/slot_kernels.hpp"
#include "pipeline/transfer_slots.hpp"

namespace cldist {

class DeviceLinks;

/// A device-ordered command: a kernel in the program's queue moves the bytes. While a kernel waits
/// on the device, NVIDIA's driver (580) does not return from clReleaseMemObject, clBuildProgram and
/// other calls, and another process may depend on what the program does after them. Therefore the
/// kernel of a receive starts only after its message is known. Unless stated otherwise, methods are
/// for the thread that drives the command.
class OrderedCommand {
public:
    /// When a command takes its position in the message order.
    enum class Position {
        at_call,  ///< the kernel of the receive may wait on the device
        /// The receiver learns of the message when the send starts. The kernel of the receive waits
        /// behind an event until the bytes arrive, or at least the kernel of the send runs.
        at_start
    };
    /// `line`: the collective's line, or null.
    OrderedCommand(std::shared_ptr<DeviceLinks> links, Direction direction, std::size_t size,
                   Position position = Position::at_call, const void *line = nullptr);
    OrderedCommand(const OrderedCommand &) = delete;
    OrderedCommand &operator=(const OrderedCommand &) = delete;
    ~OrderedCommand();

    [[nodiscard]] Position position() const { return position_; }

    // For the calling thread.
    /// Reserves a slot and, for a send to `world_rank`, landing memory of the receiver. Returns
    /// false if none is free.
    bool reserve(int world_rank, cl_command_queue queue);
    /// Send or collective: call it just before the kernel is enqueued. may_post() then considers
    /// the commands that are held back before this one.
    void follow();
    /// Receive or collective: holds back the kernel that is enqueued next, until grant(), go(),
    /// release() or fail().
    void hold(const QueueInfo &queue, std::span<const cl_event> wait_list);
    /// Enqueues the kernel. `event` may be null. Throws an Error.
    void enqueue(const SlotMove &move, std::span<const cl_event> wait_list, cl_event *event);
    /// Enqueues one kernel for a send and a granted receive.
    static void enqueue_both(OrderedCommand &send, OrderedCommand &recv, const SlotMove &sent,
                             const SlotMove &received, std::span<const cl_event> wait_list,
                             cl_event *event);
    /// Send: not zero when the kernel runs.
    [[nodiscard]] const std::atomic<std::uint32_t> *running() const { return &slot().running; }
    /// The kernel's arguments. `strided`: the layout of the bytes from `offset` on, unless they are
    /// contiguous.
    [[nodiscard]] SlotMove move_of(cl_mem buffer, std::size_t offset,
                                   const std::optional<RectRegion> &strided = {}) const;
    /// Enqueues the kernel of a collective.
    void enqueue(const CollectiveWork &work, cl_kernel kernel, cl_mem in, cl_mem out,
                 std::span<const cl_event> wait_list, cl_event *event);

    /// Send or collective: returns true if no earlier command of the queue is held back, except for
    /// collectives of the same line. Only then may other processes learn of the command.
    [[nodiscard]] bool may_post() const;
    /// Send: writes the slot and the position in landing memory to the header.
    void describe(MessageHeader &header) const;
    /// Receive: lets the kernel take the bytes of the message. Returns false if it can't. The host
    /// must then receive them.
    bool grant(int world_rank, const MessageHeader &header);
    [[nodiscard]] bool granted() const { return granted_; }
    /// Receive: returns true if the kernel may wait for the message on the device, because the
    /// sender's kernel runs and few kernels wait like this.
    bool may_join(int world_rank, const MessageHeader &header);

    /// Receive or collective: returns true if the queue has reached the command. The host may then
    /// use the buffer.
    [[nodiscard]] bool started() const {
        return !reached_ || execution_status(reached_.get()) == CL_COMPLETE;
    }
    /// Receive or collective: the host has moved the bytes.
    void release() { give_order(SlotOrder::leave); }
    /// Receive: fails the kernel, which is held back, with `code`.
    void fail(cl_int code);
    /// Send: reports to the receiver that the kernel has failed.
    void spoil();
    /// Send: the message was not sent. Its slot and landing memory become free after the kernel.
    void withdraw() { slot().taken.store(1, std::memory_order_release); }
    /// Collective: lets the kernel do its work.
    void go() { give_order(SlotOrder::move); }
    /// Returns true if the kernel has ended (its event may be incomplete) or will never start.
    [[nodiscard]] bool ended();
    /// Receive: after the end of a granted kernel, returns true if the sender's kernel has failed.
    [[nodiscard]] bool spoiled() const { return spoiled_; }
    /// Returns true if the command has a wait list, which may fail.
    [[nodiscard]] bool waits() const { return waits_; }
    /// Returns true if the kernel will never start, because its wait list failed.
    [[nodiscard]] bool failed() const;

private:
    [[nodiscard]] TransferSlot &slot() const;
    [[nodiscard]] LandingPlace place() const { return {*index_, landing_, size_}; }
    template <typename EnqueueKernel>
    void enqueue_with(EnqueueKernel enqueue_kernel, std::span<const cl_event> wait_list,
                      cl_event *event);
    void give_order(SlotOrder order, cl_int status = CL_COMPLETE);
    void note_enqueued();
    void stop_joining();

    const std::shared_ptr<DeviceLinks> links_;
    const Direction direction_;
    const std::size_t size_;
    const Position position_;
    const void *const line_;
    std::optional<std::uint32_t> index_;
    cl_command_queue queue_ = nullptr;
    bool enqueued_ = false;
    std::uint64_t next_check_ns_ = 0;
    Event reached_;             ///< the queue has reached the kernel, which is held back
    Event held_by_;             ///< a user event; null if the kernel is not held back
    std::uint64_t number_ = 0;  ///< of this command if held, else of the next held one
    /// The kernel's event, if the command has a wait list or takes its position at its start.
    Event event_;
    int world_rank_ = MPI_UNDEFINED;  ///< the peer's
    std::uint32_t peer_slot_ = 0;
    std::size_t landing_ = 0;  ///< send: offset in landing memory
    bool waits_ = false;
    bool granted_ = false;
    bool joins_ = false;
    bool spoiled_ = false;
    bool failed_ = false;
    bool ended_ = false;
};

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
    /// With more waiting queues, the device would stop.
    static constexpr std::size_t most_queues = 32;

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
    struct Note {
        NoteKind kind;
        int world_rank;
        std::uint64_t bytes;
        DeviceUuid device;
    };
    struct Peer {
        LocalName name{};
        bool offered = false;   ///< slots and memory were sent to the peer
        bool accepted = false;  ///< the peer can use what this process has offered
        /// The peer knows that this process can use its offer. All addresses are known.
        bool told = false;
        bool refused = false;
        Descriptor slots_offer;  ///< received, but not opened yet
        Descriptor arenas_offer;
        Descriptor landing_offer;
        Note offer{};
        // For sends to the peer.
        std::unique_ptr<TransferSlots> slots;  ///< the peer's
        KernelAddress slots_address;
        std::shared_ptr<ImportedMemory> landing;
        KernelAddress landing_address;
        std::shared_ptr<ImportedMemory> arenas;
        KernelAddress arenas_address;
        LandingPlaces places{landing_bytes};
        // For receives from the peer.
        std::shared_ptr<ExportedMemory> own_landing;
        KernelAddress own_landing_address;
        /// The same memory for other contexts and devices of this process; null until needed.
        std::shared_ptr<ImportedMemory> own_landing_elsewhere;

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
        /// So many kernels of receives may wait for running kernels. The device has room for twice
        /// their work-groups.
        std::size_t most_joining = 1;
        std::size_t joining = 0;
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
    [[nodiscard]] Mem landing_for(Peer &peer, const DeviceResources &resources);
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
    std::map<cl_command_queue, std::size_t> waiting_;  ///< number of unfinished kernels
    HeldCommands held_;
    std::array<bool, TransferSlots::boards> arenas_taken_{};
    std::array<std::uint32_t, TransferSlots::boards> arena_values_{};
};

}  // namespace cldist
