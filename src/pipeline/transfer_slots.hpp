#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "ocl/handle.hpp"
#include "pipeline/descriptor.hpp"
#include "pipeline/exported_memory.hpp"

namespace cldist {

/// The host's order to a waiting kernel.
enum class SlotOrder : std::uint32_t {
    none,
    move,  ///< move the bytes
    leave  ///< end without moving bytes, because the host has moved or discarded them
};

/// The state of one device-ordered command, in host memory that its kernel, the hosts of both
/// processes and the other process's device access. The kernels depend on the layout.
struct TransferSlot {
    // Written by hosts.
    std::atomic<SlotOrder> order;
    /// Send: 1 when nobody uses the slot and the landing memory any more. Set by the receiver's
    /// host, or by the sender's host if the message was not sent.
    std::atomic<std::uint32_t> taken;
    std::uint64_t address;  ///< destination of the bytes (send) or their source (receive)
    std::uint64_t size;     ///< receive: bytes of the message
    std::uint64_t flag;     ///< receive: device address of the sender's `sent`
    // Written by the kernel. If a send's kernel failed, the host writes a value above 1 to `sent`.
    alignas(64) std::atomic<std::uint32_t> sent;  ///< the bytes are at `address`
    std::atomic<std::uint32_t> ended;             ///< the kernel does not use the slot any more
    std::atomic<std::uint32_t> running;           ///< the send's kernel has started
};
static_assert(sizeof(TransferSlot) == 128 && offsetof(TransferSlot, sent) == 64);

/// A process announces its collective commands on one communicator here, to the hosts of the other
/// processes.
struct CollectiveBoard {
    static constexpr std::uint64_t window = 128;
    /// The number of the first announced command. 0 if there is none.
    std::atomic<std::uint64_t> first;
    /// The latest announcements, each at its command's number modulo `window`: twice the number,
    /// plus one if kernels may carry out the command.
    std::array<std::atomic<std::uint32_t>, window> calls;
};

/// The slots of the device-ordered commands of one context, or a mapping of another process's
/// slots. Thread-safe.
class TransferSlots {
public:
    /// The number of slots, including the boards.
    static constexpr std::uint32_t count = 16384;
    /// The first slots contain this many boards instead, one per communicator in use.
    static constexpr std::uint32_t boards = 2;
    static constexpr std::uint32_t slots_per_board =
        (sizeof(CollectiveBoard) + sizeof(TransferSlot) - 1) / sizeof(TransferSlot);
    static constexpr std::size_t bytes = count * sizeof(TransferSlot);

    /// Allocates the memory. Throws an Error if the device can't share host memory.
    TransferSlots(cl_context context, cl_device_id device);
    /// Opens the memory of another process on this host. Throws an Error.
    TransferSlots(cl_context context, cl_device_id device, Descriptor descriptor);
    TransferSlots(const TransferSlots &) = delete;
    TransferSlots &operator=(const TransferSlots &) = delete;
    ~TransferSlots();

    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    [[nodiscard]] cl_mem buffer() const { return buffer_.get(); }
    [[nodiscard]] TransferSlot &operator[](std::uint32_t index) const { return slots_[index]; }

    [[nodiscard]] CollectiveBoard &board(std::size_t index) const {
        return reinterpret_cast<CollectiveBoard &>(slots_[index * slots_per_board]);
    }

    /// Returns a free slot with all members zero, or nothing if none is free.
    std::optional<std::uint32_t> take();
    /// Frees a slot, which nobody may use any more.
    void give_back(std::uint32_t index);

private:
    void open(cl_context context, cl_device_id device);

    Descriptor descriptor_;
    std::optional<ImportedMemory> imported_;
    Mem buffer_;
    TransferSlot *slots_ = nullptr;
    bool mapped_here_ = false;
    std::mutex mutex_;
    std::vector<std::uint32_t> free_;
};

}  // namespace cldist
