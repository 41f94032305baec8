#include "pipeline/peer_memory.hpp"

#include <optional>

#include "base/config.hpp"
#include "base/log.hpp"
#include "ocl/query.hpp"
#include "pipeline/plan.hpp"

namespace cldist {

std::shared_ptr<PeerMemory> PeerMemory::create(const End &writer, const End &owner) {
    const Path path = host_path(config());
    const bool forced = path == Path::peer_to_peer;
    if ((path != Path::automatic && !forced) || is_cpu(writer.device) != is_cpu(owner.device) ||
        !ExportedMemory::possible(writer.device, forced) ||
        !ExportedMemory::possible(owner.device, forced))
        return nullptr;
    try {
        return std::make_shared<PeerMemory>(writer, owner);
    } catch (const Error &error) {
        log_info("two devices of this process share no memory: {}", error.status().message);
        return nullptr;
    }
}

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
