/// Functions for the program's memory that commands read into, write from or map.
#pragma once

#include <cstddef>
#include <memory>

#include "cluster/execution/enqueued.hpp"
#include "cluster/execution/host_copies.hpp"
#include "cluster/objects/memory.hpp"

namespace cldist::cluster {

/// Whether two boxes of one size overlap.
bool boxes_overlap(const std::size_t *origin_a, const std::size_t *origin_b,
                   const std::size_t *region);

/// Allocates memory that is aligned for every OpenCL type. Throws OutOfMemory.
std::shared_ptr<std::byte[]> own_memory(std::size_t size);
/// Keeps the memory until the event has ended.
void keep_until(cl_event event, std::shared_ptr<const void> memory);

/// Returns the number of guard bytes to allocate behind a mapping's own memory. Programs that write
/// too far seem to work natively, because other bytes of the object may follow a native mapping.
std::size_t guard_size(MemObject &object, const Mapped &mapped);
/// Fills the guard bytes behind a mapping's own memory with a known pattern.
void set_guard(const Mapped &mapped);
/// Returns how far the program has written beyond the mapping's end, in bytes.
std::size_t bytes_beyond(const Mapped &mapped);

/// Makes a map's result keep the mapping's memory (or, if it is the program's, delay the object's
/// destructor callbacks) until the bytes have arrived. The program may unmap and release the object
/// earlier.
Result into_mapping(Result result, const MemObject &object, const Mapped &mapped);
/// Returns the program's memory of a mapping.
HostRegion written_region(const MemObject &object, const Mapped &mapped);
/// Enqueues a write of a mapping's bytes, which are at `bytes`, to the object.
cl_int write_back(const QueueObject &queue, const MemObject &object, cl_mem native,
                  const Mapped &mapped, const void *bytes, const Pitches &pitches,
                  const Waits &waits);
/// Enqueues the end of a mapping that is not a native one of the queue's device: a write of its
/// bytes to the object if it is mapped for writing, or a marker. Keeps the memory until then.
cl_int unmap(const QueueObject &queue, const MemObject &object, cl_mem native, const Mapped &mapped,
             const Waits &waits, HostCopies &copies);

}  // namespace cldist::cluster
