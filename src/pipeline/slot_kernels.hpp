#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "ocl/handle.hpp"

namespace cldist {

/// Builds `kernels` behind the functions that all device-ordered commands use. Throws an Error.
[[nodiscard]] Program build_slot_program(cl_context context, cl_device_id device,
                                         const char *kernels, std::string options);

/// What the kernel of a slot moves.
struct SlotMove {
    std::uint32_t index;  ///< of the slot
    cl_mem buffer;
    std::size_t offset;     ///< bytes
    std::size_t size;       ///< bytes; of a receive: at most
    std::uint64_t address;  ///< of a send: where to
};

/// The kernels of device-ordered commands. The kernel of a receive waits for the order in its slot,
/// and for the sender's flag, and moves the bytes. Thread-safe.
class SlotKernels {
public:
    /// Builds the kernels. Throws an Error.
    SlotKernels(cl_context context, cl_device_id device);

    /// Enqueues one kernel for a send, a receive, or both; the other is null. `event` may be null.
    cl_int enqueue(cl_command_queue queue, cl_mem slots, const SlotMove *send, const SlotMove *recv,
                   std::span<const cl_event> wait_list, cl_event *event);
    /// For each slot, eight words that the work-groups share. The first two are zero between
    /// commands.
    [[nodiscard]] cl_mem shared() const { return shared_.get(); }
    /// The address of the first byte of `buffer` in kernels. Throws an Error.
    [[nodiscard]] std::uint64_t address_of(cl_command_queue queue, cl_mem buffer);

private:
    Program program_;
    Kernel send_, recv_, exchange_, address_;
    /// Of address_of(); not released, because NVIDIA's driver (580) would wait for waiting kernels.
    Mem answer_;
    Mem shared_;
    bool is_cpu_;
    std::mutex mutex_;
};

}  // namespace cldist
