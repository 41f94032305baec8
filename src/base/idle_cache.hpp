#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace cldist {

/// Creates one object per key at its first use and frees objects that were idle for a while.
/// Thread-safe.
template <typename Key, typename Thing>
class IdleCache {
public:
    template <typename Make>
    std::shared_ptr<Thing> get(const Key &key, Make &&make) {
        const std::lock_guard lock(mutex_);
        Entry &entry = entries_[key];
        if (entry.thing == nullptr) entry.thing = make();
        entry.last_used = now_ns();
        return entry.thing;
    }

    /// Frees each object that nobody holds and nobody requested for `idle_seconds`. Destructors run
    /// without the lock, so get() does not wait for them.
    void release_idle(double idle_seconds) {
        const std::uint64_t now = now_ns();
        std::vector<std::shared_ptr<Thing>> released;
        const std::lock_guard lock(mutex_);
        for (auto at = entries_.begin(); at != entries_.end();) {
            auto &[thing, last_used] = at->second;
            if (thing.use_count() > 1) last_used = now;
            const bool idle = thing.use_count() <= 1 &&
                              static_cast<double>(now - last_used) * 1e-9 >= idle_seconds;
            if (idle) released.push_back(std::move(thing));
            at = idle ? entries_.erase(at) : std::next(at);
        }
    }

private:
    struct Entry {
        std::shared_ptr<Thing> thing;
        std::uint64_t last_used = 0;
    };

    std::mutex mutex_;
    std::map<Key, Entry> entries_;
};

}  // namespace cldist
