#pragma once

#include <cstddef>
#include <span>

#include "ocl/handle.hpp"

namespace cldist::cluster {

/// A piece of a buffer, and its place in packed memory, in bytes.
struct PieceCopy {
    std::size_t begin;
    std::size_t packed;
    std::size_t size;
};

/// Kernels that copy any number of pieces of a buffer to memory where they stand packed, or back.
/// Under the lock.
class PieceKernels {
public:
    /// Builds the kernels.
    PieceKernels(cl_context context, cl_device_id device);

    /// Whether there are kernels, and they may read (`gather`) or write the buffer.
    [[nodiscard]] bool may_use(cl_mem buffer, bool gather) const;
    /// Enqueues the copies from the buffer to `packed`, behind `waits`; `event` gets the event of
    /// the end.
    cl_int enqueue_gather(cl_command_queue queue, cl_mem buffer, cl_mem packed,
                          std::span<const PieceCopy> pieces, std::span<const cl_event> waits,
                          cl_event *event);
    /// The same from `packed` to the buffer.
    cl_int enqueue_scatter(cl_command_queue queue, cl_mem buffer, cl_mem packed,
                           std::span<const PieceCopy> pieces, std::span<const cl_event> waits,
                           cl_event *event);

private:
    cl_int enqueue(const Kernel &bytes, const Kernel &words, cl_command_queue queue, cl_mem buffer,
                   cl_mem packed, std::span<const PieceCopy> pieces,
                   std::span<const cl_event> waits, cl_event *event);

    const Context context_;
    Program program_;
    Kernel gather_bytes_, gather_words_, scatter_bytes_, scatter_words_;
    bool built_ = false;
    std::size_t group_ = 64;  ///< work-items of a group, which copies a piece
};

}  // namespace cldist::cluster
