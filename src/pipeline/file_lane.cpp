#include "pipeline/file_lane.hpp"

#include <algorithm>
#include <utility>

#include "base/idle_cache.hpp"

namespace cldist {
namespace {

IdleCache<const void *, FileLane> &lanes() {
    // Never destroyed: commands may be pending at exit.
    static auto &instance = *new IdleCache<const void *, FileLane>;
    return instance;
}

}  // namespace

std::shared_ptr<FileLane> FileLane::of(const void *key) {
    return lanes().get(key, [] { return std::make_shared<FileLane>(); });
}

void FileLane::release_idle(double idle_seconds) { lanes().release_idle(idle_seconds); }

void FileLane::enter(const void *who, std::function<void()> on_first) {
    const std::lock_guard lock(mutex_);
    line_.push_back({who, std::move(on_first)});
}

bool FileLane::is_first(const void *who) const {
    const std::lock_guard lock(mutex_);
    return !line_.empty() && line_.front().who == who;
}

void FileLane::leave(const void *who) {
    std::function<void()> next;
    {
        const std::lock_guard lock(mutex_);
        const auto at = std::find_if(line_.begin(), line_.end(), [&](const Place &place) { return place.who == who; });
        if (at == line_.end()) return;
        const bool was_first = at == line_.begin();
        line_.erase(at);
        if (was_first && !line_.empty()) next = line_.front().on_first;
    }
    if (next) next();
}

}  // namespace cldist
