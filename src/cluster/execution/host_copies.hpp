#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "cluster/objects/queue.hpp"

namespace cldist::cluster {

/// Copies memory with several threads, one of which is the caller.
void copy_with_threads(std::byte *to, const std::byte *from, std::size_t size);

/// Page-locked memory of the library for copies between devices and the program's pageable memory:
/// see `pageable_copied_in_call`. Requires the lock.
class HostCopies {
public:
    /// Whether copies of a queue of this process should use such memory.
    [[nodiscard]] static bool wanted(QueueObject &queue);
    /// Whether any command in this process may use it. `discrete`: some device has its own memory.
    [[nodiscard]] static bool possible(bool discrete);
    /// The largest copy in bytes that is not divided into blocks.
    [[nodiscard]] static std::size_t largest_whole();

    /// Returns memory for a copy; null if CLDIST_STAGING_KEEP would be exceeded or the platform
    /// refuses it.
    std::shared_ptr<std::byte[]> memory(QueueObject &queue, std::size_t size);
    /// Returns memory even if much is in use, or null if the platform refuses it.
    static std::shared_ptr<std::byte[]> page_locked(const DeviceResources &resources,
                                                    std::size_t size);
    /// Keeps the memory until the event has ended.
    void keep_until(Event event, std::shared_ptr<std::byte[]> memory) {
        kept_.emplace_back(std::move(event), std::move(memory));
    }

    /// Hands over the kept memory of copies that have not ended, with their events.
    auto take_kept() {
        let_go(true);
        return std::exchange(kept_, {});
    }

    /// Records that the program gets page-locked memory by a mapping, or returns it.
    void add_page_locked(const void *begin, std::size_t size);
    void remove_page_locked(const void *begin);
    [[nodiscard]] bool is_page_locked(const void *begin, std::size_t size) const;

private:
    void let_go(bool all);

    std::deque<std::pair<Event, std::shared_ptr<std::byte[]>>> kept_;
    /// By begin: the end, and the number of mappings.
    std::map<const std::byte *, std::pair<const std::byte *, unsigned>> page_locked_;
};

}  // namespace cldist::cluster
