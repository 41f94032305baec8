#include "pipeline/file_lane.hpp"

#include "base/idle_cache.hpp"

namespace cldist {
namespace {

IdleCache<const void *, FileLane> &lanes() {
    // Never destroyed, because commands may be pending at exit.
    static auto &instance = *new IdleCache<const void *, FileLane>;
    return instance;
}

}  // namespace

std::shared_ptr<FileLane> FileLane::of(const void *key) {
    return lanes().get(key, [] { return std::make_shared<FileLane>(); });
}

void FileLane::release_idle(double idle_seconds) { lanes().release_idle(idle_seconds); }

}  // namespace cldist
