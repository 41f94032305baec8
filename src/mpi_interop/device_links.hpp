#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

#include "base/config.hpp"
#include "events/bridge.hpp"
#include "events/record.hpp"
#include "mpi_interop/local_name.hpp"
#include "mpi_interop/wire.hpp"
#include "ocl/query.hpp"
#include "pipeline/collective_kernels.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/free_ranges.hpp"
#include "pipeline/slot_kernels.hpp"
#include "pipeline/transfer_slots.hpp"

namespace cldist {

class DeviceLinks;

/// One device-ordered command: a kernel in the program's queue that moves the bytes. The kernel of
/// a receive starts only after its message is known. While a kernel waits, NVIDIA's driver (580)
/// does not return from clReleaseMemObject, clBuildProgram and other calls, and another process may
/// need what the program calls after them. The thread that drives the command calls the methods, if
/// not stated otherwise.
class OrderedCommand {
public:
    /// When a command takes its position in the message order.
    enum class Position {
        at_call,  ///< the kernel of the receive may wait on the device
        /// A send whose receiver learns of the message when the command starts. No kernel waits.
        at_start
    };
    /// `line` is the line of a collective, or null.
    OrderedCommand(std::shared_ptr<DeviceLinks> links, Direction direction, std::size_t size,
                   Position position = Position::at_call, const void *line = nullptr);
    OrderedCommand(const OrderedCommand &) = delete;
    OrderedCommand &operator=(const OrderedCommand &) = delete;
    ~OrderedCommand();

    [[nodiscard]] Position position() const { return position_; }

    // For the calling thread.
    /// Reserves what the command needs. `world_rank` is the peer of a send. Returns false if there
    /// is none left.
    bool reserve(int world_rank, cl_command_queue queue);
    /// Send or collective: the kernel is enqueued next. may_post() waits for the commands that are
    /// held back before it.
    void follow();
    /// Receive or collective: holds back the kernel, which is enqueued next, until grant(), go() or
    /// release().
    void hold(const QueueInfo &queue, std::span<const cl_event> wait_list);
    /// Enqueues the kernel. `event` may be null. Throws an Error.
    void enqueue(cl_mem buffer, std::size_t offset, std::span<const cl_event> wait_list,
                 cl_event *event);
    /// Enqueues one kernel for a send and a receive that is granted.
    static void enqueue_both(OrderedCommand &send, OrderedCommand &recv, const SlotMove &sent,
                             const SlotMove &received, std::span<const cl_event> wait_list,
                             cl_event *event);
    [[nodiscard]] SlotMove move_of(cl_mem buffer, std::size_t offset) const;
    /// The same for the kernel of a collective.
    void enqueue(const CollectiveWork &work, cl_kernel kernel, cl_mem in, cl_mem out,
                 std::span<const cl_event> wait_list, cl_event *event);

    /// Returns true if the other processes may learn of a send or collective. No earlier command of
    /// the queue waits for the host, except for collectives of the same line.
    [[nodiscard]] bool may_post() const;
    /// Send: writes where the receiver finds the bytes.
    void describe(MessageHeader &header) const;
    /// Receive: lets the kernel take the bytes of the message. Returns false if it can't; the host
    /// must receive them.
    bool grant(int world_rank, const MessageHeader &header);
    [[nodiscard]] bool granted() const { return granted_; }

    /// Receive: returns true if the queue has reached the command. The host may then use the
    /// buffer.
    [[nodiscard]] bool started() const {
        return !reached_ || execution_status(reached_.get()) == CL_COMPLETE;
    }
    /// Receive or collective: the host has moved the bytes.
    void release();
    /// Receive: the kernel, which is held back, fails with that code.
    void fail(cl_int code);
    /// Send: the kernel failed. The receiver must not wait for it.
    void spoil();
    /// Send: no receiver will learn of the bytes.
    void withdraw();
    /// Collective: lets the kernel do its work.
    void go();
    /// Returns true if the kernel has ended, except for its event, or will never start.
    [[nodiscard]] bool ended();
    /// Returns true if the command has a wait list, which may fail.
    [[nodiscard]] bool waits() const { return waits_; }
    /// Returns true if the kernel will never start, because its wait list failed.
    [[nodiscard]] bool failed() const;

private:
    [[nodiscard]] TransferSlot &slot() const;
    template <typename EnqueueKernel>
    void enqueue_with(EnqueueKernel enqueue_kernel, std::span<const cl_event> wait_list,
                      cl_event *event);
    void let_go(SlotOrder order, cl_int status = CL_COMPLETE);
    void note_enqueued();

    const std::shared_ptr<DeviceLinks> links_;
    const Direction direction_;
    const std::size_t size_;
    const Position position_;
    const void *const line_;
    std::optional<std::uint32_t> index_;
    cl_command_queue queue_ = nullptr;
    bool enqueued_ = false;
    Queue unflushed_;  ///< null after the flush
    std::uint64_t next_look_ns_ = 0;
    Event reached_;             ///< the queue has reached the kernel, which is held back
    Event held_by_;             ///< a user event; null if the kernel is not held back
    std::uint64_t number_ = 0;  ///< of the held command, or of the next one after it
    /// Only if the command has a wait list, or takes its position when it starts.
    Event event_;
    int world_rank_ = MPI_UNDEFINED;  ///< of the peer
    std::uint32_t peer_slot_ = 0;
    std::size_t landing_ = 0;  ///< send: the offset of its range of landing memory
    bool waits_ = false;
    bool granted_ = false;
    bool failed_ = false;
    bool ended_ = false;
};

/// The way between the devices of this host's processes that needs no host: kernels wait for flags
/// in host memory that all share, and write to memory of the other device. Each process uses it in
/// one context. With CLDIST_PATH=device and CLDIST_PATH=kernel, it applies to NVIDIA GPUs that one
/// process of the job uses alone, and to CPU devices. Thread-safe.
class DeviceLinks {
public:
    /// The largest message.
    static constexpr std::size_t most_bytes = std::size_t{32} << 20U;

    /// Opens the socket for the other processes, if kernels should move bytes.
    explicit DeviceLinks(int world_rank);
    /// The name of the socket. All zero if there is none.
    [[nodiscard]] const LocalName &name() const { return name_; }
    /// Adds another process. Before the first command. `job` is a name that all processes of the
    /// job on this host pass.
    void add(int world_rank, const LocalName &name, const LocalName &job);

    /// Returns true if a command on the device can use the way to the process, or for a receive
    /// from MPI_ANY_SOURCE to some process. Otherwise prepares it, if that is possible.
    bool connected(int world_rank, const std::shared_ptr<DeviceResources> &resources);
    /// Returns true if one more kernel may wait.
    [[nodiscard]] bool may_wait();

    // For collectives. Each communicator uses its own arena in each process.

    /// Bytes in each arena for the pieces of all members.
    static constexpr std::size_t arena_space = std::size_t{128} << 20U;
    struct Arena {
        int index = -1;           ///< none
        std::uint32_t value = 0;  ///< of the flags. Those of an arena only grow.
    };
    /// Takes an arena of this process. `give_arena` makes it free for another communicator.
    Arena take_arena();
    void give_arena(const Arena &arena);
    struct ArenaAddress {
        std::uint64_t space;
        std::uint64_t flags;
    };
    /// Of an arena of another process, or of this one. Only after ready().
    [[nodiscard]] ArenaAddress address_of_arena(int world_rank, int index);
    [[nodiscard]] CollectiveBoard &board(int world_rank, int index);
    /// Builds the kernel for the work unless it exists. Null if the device's compiler rejects it.
    cl_kernel prepare(const CollectiveWork &work,
                      const CollectiveKernels::Combination &combination);
    /// A buffer for collectives without data.
    [[nodiscard]] cl_mem some_buffer() const { return lane_->arenas->buffer(); }
    [[nodiscard]] bool is_cpu() const { return lane_ && lane_->resources->is_cpu(); }

    /// For receives that the host carries out, of messages whose header has a slot.
    /// Returns true if the bytes have arrived in landing memory.
    [[nodiscard]] bool landed(int world_rank, const MessageHeader &header);
    /// Returns true if the bytes will never arrive, because the sender's kernel failed.
    [[nodiscard]] bool spoiled(int world_rank, const MessageHeader &header);
    /// Reads the bytes, or starts their copy to the range. Throw an Error.
    void read_landed(int world_rank, const MessageHeader &header, std::byte *to);
    bool copy_landed(int world_rank, const MessageHeader &header, const DeviceRange &range,
                     DeviceCommand &command);
    /// The sender may use the memory again.
    void note_taken(int world_rank, const MessageHeader &header);

private:
    friend class OrderedCommand;

    /// The memory of the receiver's device for messages of one sender, which manages it. No send
    /// waits for its receive.
    static constexpr std::size_t landing_bytes = std::size_t{64} << 20U;
    /// More waiting queues would stop the device.
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
    /// The flags of all arenas come first. NVIDIA's driver (580) crashed when a command wrote to
    /// imported memory of more than 512 MiB.
    static constexpr std::size_t flags_bytes =
        CollectiveWork::most_members * CollectiveKernels::flags_bytes;
    static constexpr std::size_t arenas_bytes = TransferSlots::boards * (flags_bytes + arena_space);
    struct Note {
        NoteKind kind;
        int world_rank;
        std::uint64_t bytes;
        DeviceUuid device;
    };
    /// A send that has ended. Its slot and landing memory are in use until the receiver has set
    /// `taken`.
    struct Sent {
        std::uint32_t slot;
        std::size_t landing;
        std::size_t size;
    };
    struct Peer {
        LocalName name{};
        bool offered = false;
        bool accepted = false;  ///< the peer can use what this process has offered
        bool told = false;      ///< that this process can use what the peer has offered
        bool refused = false;
        Descriptor slots_offer;  ///< received, but not opened yet
        Descriptor arenas_offer;
        Descriptor landing_offer;
        Note offer{};
        // For sends to the peer.
        std::unique_ptr<TransferSlots> slots;  ///< the peer's
        std::uint64_t slots_address = 0;
        std::shared_ptr<ImportedMemory> landing;
        std::uint64_t landing_address = 0;
        std::shared_ptr<ImportedMemory> arenas;
        std::uint64_t arenas_address = 0;
        FreeRanges room{0, landing_bytes};
        std::vector<Sent> sent;
        // For receives from the peer.
        std::shared_ptr<ExportedMemory> own_landing;
        std::uint64_t own_landing_address = 0;

        [[nodiscard]] bool ready() const { return accepted && slots != nullptr; }
    };
    /// The context whose commands use the way.
    struct Lane {
        std::shared_ptr<DeviceResources> resources;
        std::unique_ptr<TransferSlots> slots;
        std::unique_ptr<SlotKernels> kernels;
        std::unique_ptr<CollectiveKernels> collective_kernels;
        std::shared_ptr<ExportedMemory> arenas;  ///< of this process, for the pieces of all others
        std::uint64_t arenas_address = 0;
        Descriptor claim;     ///< shows other processes that this process uses the device
        bool shared = false;  ///< another process uses the device, too
    };

    /// Kernels carry out collectives, too.
    [[nodiscard]] static bool has_arenas() { return config().path == Path::device; }
    bool open_lane(const std::shared_ptr<DeviceResources> &resources);
    static void make_arenas(Lane &lane);
    bool claim(Lane &lane);
    void take_notes();
    void take_note(const Note &note, Descriptor descriptor);
    void open_offer(Peer &peer);
    // If the other process has no space for notes now, the next command tries again.
    void offer(Peer &peer);
    void accept(Peer &peer);
    bool tell(const Peer &peer, NoteKind kind, std::uint64_t bytes = 0, int descriptor = -1);
    void refuse(const std::string &why);
    void free_taken(Peer &peer);
    [[nodiscard]] Peer *peer_of(int world_rank, const MessageHeader &header);

    std::mutex mutex_;
    const int world_rank_;
    LocalName name_{};
    Descriptor socket_;
    LocalName job_{};
    std::map<int, Peer> peers_;
    std::optional<Lane> lane_;
    bool refused_ = false;
    std::map<cl_command_queue, std::size_t> waiting_;  ///< commands that have not ended
    /// The numbers of the commands that are held back, and their lines.
    std::map<cl_command_queue, std::map<std::uint64_t, const void *>> held_;
    std::uint64_t next_number_ = 0;
    std::array<bool, TransferSlots::boards> arenas_taken_{};
    std::array<std::uint32_t, TransferSlots::boards> arena_values_{};
};

}  // namespace cldist
