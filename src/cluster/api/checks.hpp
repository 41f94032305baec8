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

/// Throws an Error unless the flags of a new memory object go together.
void check_mem_flags(cl_mem_flags flags);
/// Throws an Error unless `host_ptr` goes with the flags.
void check_host_ptr(cl_mem_flags flags, const void *host_ptr);
/// The flags of a part of a memory object, made with `flags`. Throws an Error.
cl_mem_flags inherited_flags(const MemObject &parent, cl_mem_flags flags);
/// The same, with what the kernels may do if they say nothing.
cl_mem_flags with_device_access(cl_mem_flags flags);
/// Throws an Error with CL_INVALID_OPERATION if no device has.
void check_some_device_has_images(const ContextObject &context);

/// Whether a buffer can be filled with patterns of so many bytes.
constexpr bool is_pattern_size(std::size_t size) {
    return std::has_single_bit(size) && size <= 128;
}

/// Throws an Error unless map flags go together and the object allows the host that access.
void check_map_flags(const MemObject &object, cl_map_flags flags);
/// Throws an Error unless the memory object is a buffer that has these bytes.
void check_range(const MemObject &buffer, std::size_t offset, std::size_t size);
/// Throws an Error if it is a sub-buffer that is not aligned for the queue's device.
void check_alignment(const QueueObject &queue, const MemObject &memory);

/// An address behind a pointer that the program gave.
inline std::byte *at(void *pointer, std::size_t offset) {
    return static_cast<std::byte *>(pointer) + offset;
}
inline const std::byte *at(const void *pointer, std::size_t offset) {
    return static_cast<const std::byte *>(pointer) + offset;
}

}  // namespace cldist::cluster
