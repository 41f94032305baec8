#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "ocl/handle.hpp"
#include "pipeline/rect.hpp"
#include "pipeline/transfer_slots.hpp"

namespace cldist {

/// Builds `kernels` after the functions that all device-ordered kernels share. Throws an Error.
[[nodiscard]] Program build_slot_program(cl_context context, cl_device_id device,
                                         const char *kernels, std::string options);

/// The most work-groups of a send or a receive.
inline constexpr std::size_t most_move_groups = 64;

/// The arguments of a send or a receive.
struct SlotMove {
    std::uint32_t index;  ///< the command's slot
    cl_mem buffer;
    std::size_t offset;     ///< bytes
    std::size_t size;       ///< bytes; receive: the capacity
    std::uint64_t address;  ///< send: the destination, in the receiver's landing memory
    /// The layout of the bytes in the buffer. Empty if they are contiguous.
    std::optional<RectRegion> strided;
    std::size_t most_groups = most_move_groups;  ///< receive: work-groups, which may all wait
};

/// The address of a buffer in kernels. A kernel finds it, and nobody waits for this kernel, because
/// other kernels may occupy the device for any time. Not thread-safe.
class KernelAddress {
public:
    /// Returns true if the address is known. An empty object has nothing to find out. Throws an
    /// Error if the device has failed the kernel.
    [[nodiscard]] bool known();
    /// Only after known().
    [[nodiscard]] std::uint64_t get() const { return address_; }

private:
    friend class SlotKernels;

    Event found_;  ///< null if there is no kernel any more
    /// The slot to which the kernel writes the address. It stays taken if this object is destroyed
    /// earlier, because the kernel may still write.
    TransferSlots *slots_ = nullptr;
    std::uint32_t index_ = 0;
    std::uint64_t address_ = 0;
};

/// The kernels of device-ordered messages. A send's kernel moves the bytes and sets the slot's flag
/// `sent`. A receive's kernel waits for the order in its slot and, if the order is `move`, for the
/// sender's flag, and then moves the bytes. Thread-safe.
class SlotKernels {
public:
    /// Builds the kernels. Throws an Error, also if the driver limits the run time of kernels,
    /// because kernels may wait.
    SlotKernels(cl_context context, cl_device_id device);

    /// Enqueues one kernel for a send, a receive, or both. The other pointer and `event` may be
    /// null.
    cl_int enqueue(cl_command_queue queue, cl_mem slots, const SlotMove *send, const SlotMove *recv,
                   std::span<const cl_event> wait_list, cl_event *event);
    /// Device memory: eight 32-bit words per slot that the slot's work-groups share. The first two
    /// are zero between commands.
    [[nodiscard]] cl_mem shared() const { return shared_.get(); }
    /// Starts to find the address of the first byte of `buffer`. `slots` must be of the same
    /// context. Throws an Error.
    [[nodiscard]] KernelAddress address_of(TransferSlots &slots, cl_mem buffer);
    /// The in-order queue of address_of(). No message waits for its commands.
    [[nodiscard]] cl_command_queue queue() const { return queue_.get(); }

private:
    Queue queue_;
    Program program_;
    Kernel send_, recv_, exchange_, address_;
    Mem shared_;
    bool is_cpu_;
    std::mutex mutex_;
};

/// How many of the device's queues may wait for other processes at once. Throws an Error if none
/// may and CLDIST_PATH is device.
[[nodiscard]] std::size_t most_waiting_queues(cl_device_id device);

/// Describes why kernels of the device can't move messages. Empty if they can.
[[nodiscard]] std::string obstacle_to_kernels(cl_device_id device);

}  // namespace cldist
