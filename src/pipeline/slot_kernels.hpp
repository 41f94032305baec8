#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "ocl/handle.hpp"

namespace cldist {

/// Builds `kernels` after the functions that all device-ordered kernels share. Throws an Error.
[[nodiscard]] Program build_slot_program(cl_context context, cl_device_id device,
                                         const char *kernels, std::string options);

/// The arguments of a send or a receive.
struct SlotMove {
    std::uint32_t index;  ///< the command's slot
    cl_mem buffer;
    std::size_t offset;     ///< bytes
    std::size_t size;       ///< bytes; receive: the capacity
    std::uint64_t address;  ///< send: the destination, in the receiver's landing memory
};

/// The kernels of device-ordered messages. A send's kernel moves the bytes and sets the slot's flag
/// `sent`. A receive's kernel waits for the order in its slot and, if the order is `move`, for the
/// sender's flag, and then moves the bytes. Thread-safe.
class SlotKernels {
public:
    /// Builds the kernels. Throws an Error.
    SlotKernels(cl_context context, cl_device_id device);

    /// Enqueues one kernel for a send, a receive, or both. The other pointer and `event` may be
    /// null.
    cl_int enqueue(cl_command_queue queue, cl_mem slots, const SlotMove *send, const SlotMove *recv,
                   std::span<const cl_event> wait_list, cl_event *event);
    /// Device memory: eight 32-bit words per slot that the slot's work-groups share. The first two
    /// are zero between commands.
    [[nodiscard]] cl_mem shared() const { return shared_.get(); }
    /// The address of the first byte of `buffer` in kernels. Throws an Error.
    [[nodiscard]] std::uint64_t address_of(cl_command_queue queue, cl_mem buffer);

private:
    Program program_;
    Kernel send_, recv_, exchange_, address_;
    /// For address_of(). Kept, because with NVIDIA's driver (580) its release waits for waiting
    /// kernels.
    Mem answer_;
    Mem shared_;
    bool is_cpu_;
    std::mutex mutex_;
};

}  // namespace cldist
