#include "pipeline/peer_memory.hpp"

#include <optional>

namespace cldist {

PeerMemory::PeerMemory(const End &writer, const End &owner)
    : memory_(ExportedMemory::create(owner.context, owner.device, CL_MEM_READ_WRITE, capacity)),
      for_writer_(memory_->imported()->buffer(writer.context, writer.device)) {}

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
