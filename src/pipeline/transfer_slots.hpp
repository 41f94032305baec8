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

/// The order that a waiting kernel gets.
enum class SlotOrder : std::uint32_t {
    none,
    move,  ///< move the bytes
    leave  ///< end without moving bytes: the host has moved them, or abandons them
};

/// The state of one device-ordered command, in host memory that its kernel, the hosts of both
/// processes and the device of the other process share. Each member has one writer. The kernels
/// know the layout.
struct TransferSlot {
    // Written by hosts.
    std::atomic<SlotOrder> order;
    /// send: the receiver does not use the slot and the landing memory any more.
    std::atomic<std::uint32_t> taken;
    std::uint64_t address;  ///< where to put the bytes (send), where they will be (receive)
    std::uint64_t size;     ///< receive: bytes
    std::uint64_t flag;     ///< receive: address of the sender's `sent`
    // Written by the kernel.
    alignas(64) std::atomic<std::uint32_t> sent;  ///< the bytes are at `address`
    std::atomic<std::uint32_t> ended;             ///< the last access to the slot
};
static_assert(sizeof(TransferSlot) == 128 && offsetof(TransferSlot, sent) == 64);

/// Announcements of a process to the other processes of a communicator about its collective
/// commands. Only hosts use them.
struct CollectiveBoard {
    static constexpr std::uint64_t window = 128;
    /// The first command that the process announces. Zero: it has announced none.
    std::atomic<std::uint64_t> first;
    /// The last commands, by their numbers modulo `window`: twice the number, plus one if kernels
    /// may carry it out.
    std::array<std::atomic<std::uint32_t>, window> calls;
};

/// The slots of the device-ordered commands of one context, and the same memory in another process.
/// Thread-safe.
class TransferSlots {
public:
    /// The largest number of commands at once.
    static constexpr std::uint32_t count = 16384;
    /// The first slots are boards instead.
    static constexpr std::uint32_t boards = 2;
    static constexpr std::uint32_t slots_per_board =
        (sizeof(CollectiveBoard) + sizeof(TransferSlot) - 1) / sizeof(TransferSlot);
    static constexpr std::size_t bytes = count * sizeof(TransferSlot);

    /// Allocates the memory. Throws an Error if the device can't share host memory.
    TransferSlots(cl_context context, cl_device_id device);
    /// Opens the memory of another process of the host. Throws an Error.
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

    /// Takes a slot, with all members zero. Nothing if none is free.
    std::optional<std::uint32_t> take();
    /// Nobody uses the slot any more.
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
