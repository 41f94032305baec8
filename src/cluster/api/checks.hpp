/// Checks of arguments that several entry points share.
#pragma once

#include <bit>

#include "cluster/objects/errors.hpp"
#include "cluster/objects/memory.hpp"
#include "cluster/objects/packing.hpp"
#include "cluster/objects/queue.hpp"

namespace cldist::cluster {

inline void check_context(const QueueObject &queue, const MemObject &memory) {
    require(queue.context.get() == memory.context.get(), CL_INVALID_CONTEXT,
            "the queue and the memory object belong to different contexts");
}
inline void check_host_access(const MemObject &memory, cl_mem_flags forbidden) {
    require((memory.flags & (CL_MEM_HOST_NO_ACCESS | forbidden)) == 0, CL_INVALID_OPERATION,
            "the memory object was created with flags ({:#x}) that forbid this access by the host",
            memory.flags);
}

/// Throws an Error unless the flags of a new memory object are known and compatible.
void check_mem_flags(cl_mem_flags flags);
/// Throws an Error unless `host_ptr` matches the flags.
void check_host_ptr(cl_mem_flags flags, const void *host_ptr);
/// Returns the flags of a sub-buffer or an image that is created from `parent` with `flags`. Throws
/// an Error if they contradict the parent's flags.
cl_mem_flags inherited_flags(const MemObject &parent, cl_mem_flags flags);
/// Returns the flags, or the default CL_MEM_READ_WRITE if they are 0.
cl_mem_flags with_device_access(cl_mem_flags flags);
/// Throws an Error with CL_INVALID_OPERATION if no device supports images.
void check_some_device_has_images(const ContextObject &context);

/// Whether a buffer can be filled with patterns of `size` bytes.
constexpr bool is_pattern_size(std::size_t size) {
    return std::has_single_bit(size) && size <= 128;
}

/// Throws an Error unless the map flags are compatible and the object allows the host this access.
void check_map_flags(const MemObject &object, cl_map_flags flags);
/// Throws an Error unless the memory object is a buffer that contains these bytes.
void check_range(const MemObject &buffer, std::size_t offset, std::size_t size);
/// Throws an Error if `memory` is a sub-buffer that is not aligned for the queue's device.
void check_alignment(const QueueObject &queue, const MemObject &memory);

inline std::byte *at(void *pointer, std::size_t offset) {
    return static_cast<std::byte *>(pointer) + offset;
}
inline const std::byte *at(const void *pointer, std::size_t offset) {
    return static_cast<const std::byte *>(pointer) + offset;
}

}  // namespace cldist::cluster
