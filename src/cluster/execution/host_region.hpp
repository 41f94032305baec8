/// Memory of the program's that commands read into, write from or map.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "cluster/execution/executor.hpp"
#include "cluster/objects/memory.hpp"

namespace cldist::cluster {

/// A box within the program's memory: `region` is in bytes, rows and slices.
struct HostRegion {
    std::byte *begin;
    std::array<std::size_t, 3> region;
    std::size_t row_pitch;
    std::size_t slice_pitch;

    [[nodiscard]] std::size_t size() const { return region[0] * region[1] * region[2]; }
    [[nodiscard]] bool has_gaps() const;
    [[nodiscard]] std::size_t size_with_gaps() const {
        return (region[2] - 1) * slice_pitch + (region[1] - 1) * row_pitch + region[0];
    }
};

/// Whether two boxes have a place in common.
bool boxes_overlap(const std::array<std::size_t, 3> &origin_a, const std::array<std::size_t, 3> &region_a,
                   const std::array<std::size_t, 3> &origin_b, const std::array<std::size_t, 3> &region_b);

/// The result of a command that reads into `host`. Unless the process is `alone`, where there are gaps, which are the program's, it first comes
/// without gaps: then there is something to be done once it has `arrived`.
Result result_in(const HostRegion &host, bool alone);

/// Aligned for any of OpenCL's types.
std::shared_ptr<std::byte[]> own_memory(std::size_t size);
/// Keeps the memory until the event has ended.
void keep_until(cl_event event, std::shared_ptr<const void> memory);

/// The same, which keeps a mapping's memory until the bytes have come, and the program from being told that the object is
/// gone: it may unmap and release before that.
Result into_mapping(Result result, const MemObject &object, const Mapped &mapped);
/// Enqueues what ends a mapping that is not native, and brings its bytes back into the object if they were written. The
/// mapping's memory is kept until then.
cl_int unmap(const QueueObject &queue, const MemObject &object, cl_mem native, const Mapped &mapped, const Waits &waits,
             HostCopies &copies);

}  // namespace cldist::cluster
