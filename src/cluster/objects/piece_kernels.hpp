#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "ocl/handle.hpp"

namespace cldist::cluster {

/// A piece of a buffer and its offset in packed memory, in bytes.
struct PieceCopy {
    std::size_t begin;
    std::size_t packed;
    std::size_t size;
};

/// Kernels that gather pieces of a buffer in packed memory, or scatter them. Under the lock.
class PieceKernels {
public:
    /// Builds the kernels. If this fails, logs a warning.
    PieceKernels(cl_context context, cl_device_id device);

    /// Whether the kernels were built and the buffer's flags let them read (`gather`) or write.
    [[nodiscard]] bool may_use(cl_mem buffer, bool gather) const;
    /// Enqueues a kernel that copies the pieces from the buffer to `packed` (`gather`) or back.
    /// `waits` is its wait list, and `event` receives its event.
    cl_int enqueue(bool gather, cl_command_queue queue, cl_mem buffer, cl_mem packed,
                   std::span<const PieceCopy> pieces, const WaitArguments &waits, cl_event *event);

private:
    const Context context_;
    Program program_;
    std::array<Kernel, 2> gather_, scatter_;  ///< by bytes, by words
    bool built_ = false;
    std::size_t group_ = 64;  ///< work-items of a work-group, which copies one piece
};

}  // namespace cldist::cluster
