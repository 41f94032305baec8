/// Memory of the program's that commands read into, write from or map.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "cluster/executor.hpp"
#include "cluster/memory.hpp"

namespace cldist::cluster {

/// A box within the program's memory: `region` is in bytes, rows and slices.
struct HostRegion {
    std::byte *begin;
    std::array<std::size_t, 3> region;
    std::size_t row_pitch;
    std::size_t slice_pitch;

    [[nodiscard]] std::size_t size() const { return region[0] * region[1] * region[2]; }
    [[nodiscard]] bool has_gaps() const;
};

/// Whether two boxes have a place in common.
bool boxes_overlap(const std::array<std::size_t, 3> &origin_a, const std::array<std::size_t, 3> &region_a,
                   const std::array<std::size_t, 3> &origin_b, const std::array<std::size_t, 3> &region_b);

/// The result of a command that reads into `host`. With several processes and gaps, which are the program's, it first comes
/// without gaps: then there is something to be done once it has `arrived`.
Result result_in(const HostRegion &host);

/// Aligned for any of OpenCL's types.
std::shared_ptr<std::byte[]> own_memory(std::size_t size);
/// Keeps the memory until the event has ended.
void keep_until(cl_event event, std::shared_ptr<std::byte[]> memory);

/// Throws an Error unless they go together and the object allows the host that access.
void check_map_flags(const MemObject &object, cl_map_flags flags);

/// The same, which keeps a mapping's memory until the bytes have come: the program may unmap before that.
Result into_mapping(Result result, const Mapped &mapped);
/// Enqueues what ends a mapping that is not native, and brings its bytes back into the object if they were written. The
/// mapping's memory is kept until then.
cl_int unmap(const QueueObject &queue, const MemObject &object, cl_mem native, const Mapped &mapped,
             const Waits &waits);

}  // namespace cldist::cluster
