/// Memory of the program's that commands read into, write from or map.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_copies.hpp"
#include "cluster/objects/memory.hpp"

namespace cldist::cluster {

/// Whether two boxes have a place in common.
bool boxes_overlap(const std::array<std::size_t, 3> &origin_a,
                   const std::array<std::size_t, 3> &region_a,
                   const std::array<std::size_t, 3> &origin_b,
                   const std::array<std::size_t, 3> &region_b);

/// Copies a box to or from memory without gaps.
void pack(const HostRegion &host, std::byte *to);
void unpack(const std::byte *from, const HostRegion &host);

/// Aligned for any of OpenCL's types.
std::shared_ptr<std::byte[]> own_memory(std::size_t size);
/// Keeps the memory until the event has ended.
void keep_until(cl_event event, std::shared_ptr<const void> memory);

/// How many bytes to have behind a mapping's own memory. Natively the object's other bytes may be
/// there, and programs that go too far seem to work.
std::size_t guard_size(MemObject &object, const Mapped &mapped);
/// Fills the `guard` bytes behind a mapping's own memory with what is known.
void set_guard(const Mapped &mapped);
/// How far the program has changed them.
std::size_t bytes_beyond(const Mapped &mapped);

/// A result for a mapping. It keeps the memory until the bytes have arrived, and delays the
/// object's destructor callbacks: the program may unmap and release the object before that.
Result into_mapping(Result result, const MemObject &object, const Mapped &mapped);
/// Where the program has what it has written into a mapping.
HostRegion written_region(const MemObject &object, const Mapped &mapped);
/// Brings such bytes back into the object, from memory where they are without gaps.
cl_int write_back(const QueueObject &queue, const MemObject &object, cl_mem native,
                  const Mapped &mapped, const std::byte *bytes, const Waits &waits);
/// Enqueues what ends a mapping that is not native, and brings its bytes back into the object if
/// they were written. The mapping's memory is kept until then.
cl_int unmap(const QueueObject &queue, const MemObject &object, cl_mem native, const Mapped &mapped,
             const Waits &waits, HostCopies &copies);

}  // namespace cldist::cluster
