#pragma once

#include <cstddef>
#include <mutex>

#include "ocl/handle.hpp"
#include "pipeline/rect.hpp"

namespace cldist {

/// A part of a region's message, the region in a buffer, and the device memory for the packed part.
struct RectCopy {
    const RectRegion &region;
    cl_mem buffer;
    std::size_t first;   ///< bytes in `buffer` before the region's first byte
    std::size_t offset;  ///< bytes of the message before the part
    std::size_t size;    ///< bytes of the part, at least 1
    cl_mem packed;
    std::size_t packed_offset;  ///< bytes, a multiple of 16
};

/// Packs and unpacks regions on one device with a kernel. If the kernel can't be built or may
/// not access the buffer, it uses clEnqueueCopyBufferRect for each slice instead.
/// Thread-safe.
class RectKernels {
public:
    /// Builds the kernel.
    RectKernels(cl_context context, cl_device_id device);

    enum class Way { pack, unpack };
    /// Enqueues the copy of a part of a region to packed memory, or back. It starts when `after`,
    /// if not null, is complete. `event` receives the event of the copy.
    cl_int enqueue(Way way, cl_command_queue queue, const RectCopy &copy, cl_event after,
                   cl_event *event);

private:
    Program program_;
    Kernel kernel_;      ///< null if the build failed
    std::size_t group_;  ///< work-items per work-group
    const std::size_t most_groups_;
    std::mutex mutex_;  ///< guards the kernel's arguments
};

}  // namespace cldist
