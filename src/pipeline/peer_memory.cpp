#include "pipeline/peer_memory.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "ocl/query.hpp"

namespace cldist {

PeerMemory::PeerMemory(const End &writer, const End &owner)
    : memory_(ExportedMemory::create(owner.context, owner.device, CL_MEM_READ_WRITE, capacity)) {
    Descriptor descriptor(fcntl(memory_->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!descriptor)
        throw Error(CL_OUT_OF_RESOURCES, fmt::format("a descriptor: {}", std::strerror(errno)));
    for_writer_ = ImportedMemory(std::move(descriptor), memory_->size(), memory_->device())
                      .buffer(writer.context, writer.device);
}

std::shared_ptr<const std::size_t> PeerMemory::lease(std::size_t size) {
    const std::lock_guard lock(mutex_);
    const std::optional<std::size_t> offset = free_.take(size);
    if (!offset) return nullptr;
    return {new std::size_t(*offset), [self = shared_from_this(), size](const std::size_t *at) {
                const std::unique_ptr<const std::size_t> freed(at);
                const std::lock_guard locked(self->mutex_);
                self->free_.give_back(*at, size);
            }};
}

}  // namespace cldist
