#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

#include "events/bridge.hpp"
#include "events/record.hpp"
#include "mpi_interop/local_name.hpp"
#include "mpi_interop/wire.hpp"
#include "ocl/query.hpp"
#include "pipeline/device_endpoint.hpp"
#include "pipeline/free_ranges.hpp"
#include "pipeline/slot_kernels.hpp"
#include "pipeline/transfer_slots.hpp"

namespace cldist {

class DeviceLinks;

/// One device-ordered command: a kernel in the program's queue that moves the bytes. The kernel of a receive starts only
/// after its message is known. While a kernel waits, NVIDIA's driver (580) does not return from clReleaseMemObject,
/// clBuildProgram and other calls, and another process may need what the program calls after them. The thread that drives
/// the command calls the methods, if not stated otherwise.
class OrderedCommand {
public:
    OrderedCommand(std::shared_ptr<DeviceLinks> links, Direction direction, std::size_t size);
    OrderedCommand(const OrderedCommand &) = delete;
    OrderedCommand &operator=(const OrderedCommand &) = delete;
    ~OrderedCommand();

    // For the calling thread.
    /// Reserves what the command needs. `world_rank` is the peer of a send. Returns false if there is none left.
    bool reserve(int world_rank, cl_command_queue queue);
    /// Send: the kernel is enqueued next. may_post() waits for the receives that are held back before it.
    void follow();
    /// Receive: holds back the kernel, which is enqueued next, until grant() or release().
    void hold(const QueueInfo &queue, std::span<const cl_event> wait_list);
    /// Enqueues the kernel. `event` may be null. Throws an Error.
    void enqueue(cl_mem buffer, std::size_t offset, std::span<const cl_event> wait_list, cl_event *event);
    /// Enqueues one kernel for a send and a receive that is granted.
    static void enqueue_both(OrderedCommand &send, OrderedCommand &recv, const SlotMove &sent, const SlotMove &received,
                             std::span<const cl_event> wait_list, cl_event *event);
    [[nodiscard]] SlotMove move_of(cl_mem buffer, std::size_t offset) const;

    /// Send: returns true if the receiver may learn of the message. No earlier command of the queue waits for the
    /// host.
    [[nodiscard]] bool may_post() const;
    /// Send: writes where the receiver finds the bytes.
    void describe(MessageHeader &header) const;
    /// Receive: lets the kernel take the bytes of the message. Returns false if it can't; the host must receive them.
    bool grant(int world_rank, const MessageHeader &header);
    [[nodiscard]] bool granted() const { return granted_; }

    /// Receive: returns true if the queue has reached the command. The host may then use the buffer.
    [[nodiscard]] bool started() const { return !reached_ || execution_status(reached_.get()) == CL_COMPLETE; }
    /// Receive: the host has moved the bytes.
    void release();
    /// Returns true if the kernel has ended, except for its event.
    [[nodiscard]] bool ended();
    /// Returns true if the command has a wait list, which may fail.
    [[nodiscard]] bool waits() const { return waits_; }
    /// Returns true if the kernel will never start, because its wait list failed.
    [[nodiscard]] bool failed() const;

private:
    [[nodiscard]] TransferSlot &slot() const;
    void let_go(SlotOrder order);
    void note_enqueued();

    const std::shared_ptr<DeviceLinks> links_;
    const Direction direction_;
    const std::size_t size_;
    std::optional<std::uint32_t> index_;
    cl_command_queue queue_ = nullptr;
    bool enqueued_ = false;
    Event reached_;                   ///< the queue has reached the kernel, which is held back
    Event held_by_;                   ///< a user event; null if the kernel is not held back
    std::uint64_t number_ = 0;        ///< of the held receive, or of the next one after a send
    Event event_;                     ///< only if the command has a wait list
    int world_rank_ = MPI_UNDEFINED;  ///< of the peer
    std::uint32_t peer_slot_ = 0;
    std::size_t landing_ = 0;  ///< send: the offset of its range of landing memory
    bool waits_ = false;
    bool granted_ = false;
    bool ended_ = false;
};

/// The way between the devices of this host's processes that needs no host: kernels wait for flags in host memory that
/// all share, and write to memory of the other device. Each process uses it in one context. With CLDIST_PATH=device, it
/// applies to NVIDIA GPUs that one process of the job uses alone, and to CPU devices. Thread-safe.
class DeviceLinks {
public:
    /// The largest message.
    static constexpr std::size_t most_bytes = std::size_t{32} << 20U;

    /// Opens the socket for the other processes, if the path is requested.
    explicit DeviceLinks(int world_rank);
    /// The name of the socket. All zero if there is none.
    [[nodiscard]] const LocalName &name() const { return name_; }
    /// Adds another process. Before the first command. `job` is a name that all processes of the job on this host pass.
    void add(int world_rank, const LocalName &name, const LocalName &job);

    /// Returns true if a command on the device can use the way to the process, or for a receive from MPI_ANY_SOURCE to
    /// some process. Otherwise prepares it, if that is possible.
    bool ready(int world_rank, const std::shared_ptr<DeviceResources> &resources);

    /// For receives that the host carries out, of messages whose header has a slot.
    /// Returns true if the bytes have arrived in landing memory.
    [[nodiscard]] bool landed(int world_rank, const MessageHeader &header);
    /// Reads the bytes, or starts their copy to the range. Throw an Error.
    void read_landed(int world_rank, const MessageHeader &header, std::byte *to);
    bool copy_landed(int world_rank, const MessageHeader &header, const DeviceRange &range, DeviceCommand &command);
    /// The sender may use the memory again.
    void note_taken(int world_rank, const MessageHeader &header);

private:
    friend class OrderedCommand;

    /// The memory of the receiver's device for messages of one sender, which manages it. No send waits for its receive.
    static constexpr std::size_t landing_bytes = std::size_t{64} << 20U;
    /// More waiting queues would stop the device.
    static constexpr std::size_t most_queues = 32;

    enum class NoteKind : std::uint32_t { nothing, slots, landing, accepted, refused, shared };
    struct Note {
        NoteKind kind;
        int world_rank;
        std::uint64_t bytes;
        DeviceUuid device;
    };
    /// A send that has ended. Its slot and landing memory are in use until the receiver has set `taken`.
    struct Sent {
        std::uint32_t slot;
        std::size_t landing;
        std::size_t size;
    };
    struct Peer {
        LocalName name{};
        bool offered = false;
        bool accepted = false;  ///< the peer can use what this process has offered
        bool refused = false;
        Descriptor slots_offer;  ///< received, but not opened yet
        Descriptor landing_offer;
        Note offer{};
        // For sends to the peer.
        std::unique_ptr<TransferSlots> slots;  ///< the peer's
        std::uint64_t slots_address = 0;
        std::shared_ptr<ImportedMemory> landing;
        std::uint64_t landing_address = 0;
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
        Descriptor claim;     ///< shows other processes that this process uses the device
        bool shared = false;  ///< another process uses the device, too
    };

    bool open_lane(const std::shared_ptr<DeviceResources> &resources);
    bool claim(Lane &lane);
    void take_notes();
    void take_note(const Note &note, Descriptor descriptor);
    void open_offer(Peer &peer);
    void offer(Peer &peer);
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
    std::map<cl_command_queue, std::size_t> waiting_;           ///< commands that have not ended
    std::map<cl_command_queue, std::set<std::uint64_t>> held_;  ///< numbers of the receives that are held back
    std::uint64_t next_number_ = 0;
};

}  // namespace cldist
