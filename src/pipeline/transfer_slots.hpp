#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ocl/handle.hpp"
#include "pipeline/descriptor.hpp"
#include "pipeline/exported_memory.hpp"
#include "pipeline/slot_pool.hpp"

namespace cldist {

/// The bytes that a process sends to another one and expects from it, in a collective with a size
/// per process.
struct PartSizes {
    std::uint64_t given, expected;
};

/// A process announces its collective commands on one communicator here, to the hosts of the other
/// processes.
struct CollectiveBoard {
    static constexpr std::uint64_t window = 128;
    static constexpr std::size_t most_members = 16;
    /// The number of the first announced command. 0 if there is none.
    std::atomic<std::uint64_t> first;
    /// The latest announcements, each at its command's number modulo `window`. The lower half is
    /// twice the number, plus one if kernels may carry out the command. The upper half is a hash of
    /// the call.
    std::array<std::atomic<std::uint64_t>, window> calls;
    /// For the announcements of collectives with a size per process: the sizes, by rank. They are
    /// written before the announcement.
    std::array<std::array<PartSizes, most_members>, window> parts;
};

/// The memory of the slots of one context's device-ordered commands, or a mapping of another
/// process's slots.
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

    /// Without free slots if they are another process's.
    [[nodiscard]] SlotPool &pool() { return pool_; }

private:
    void open(cl_context context, cl_device_id device);

    Descriptor descriptor_;
    std::optional<ImportedMemory> imported_;
    Mem buffer_;
    TransferSlot *slots_ = nullptr;
    bool mapped_here_ = false;
    SlotPool pool_;
};

}  // namespace cldist
