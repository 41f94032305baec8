#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "cluster/objects/queue.hpp"

namespace cldist::cluster {

/// Page-locked memory of the library's, for copies between devices and pageable memory of the program's: NVIDIA's driver (580)
/// stays in a call that copies such memory, holding a lock, until it has been read, or a piece of it has been written, also
/// where the call is not blocking. What the program has page-locked itself it knows. Under the lock.
class HostCopies {
public:
    /// Whether they are to be used for copies of the queue, which is this process's.
    [[nodiscard]] static bool wanted(QueueObject &queue);
    /// Whether commands of some device here may be: `discrete` says that some device has its own memory.
    [[nodiscard]] static bool possible(bool discrete);
    /// Up to so many bytes a command copies as a whole rather than in blocks.
    [[nodiscard]] static std::size_t largest_whole();

    /// Memory for a copy; null if there is enough of it in use.
    std::shared_ptr<std::byte[]> memory(QueueObject &queue, std::size_t size);
    /// Also where much is in use; null if the platform refuses it.
    static std::shared_ptr<std::byte[]> page_locked(const DeviceResources &resources, std::size_t size);
    /// Keeps it until the event has ended.
    void keep_until(Event event, std::shared_ptr<std::byte[]> memory) {
        kept_.emplace_back(std::move(event), std::move(memory));
    }

    /// Returns the memory that is kept so, except for copies that have ended.
    auto take_kept() {
        let_go(true);
        return std::exchange(kept_, {});
    }

    /// The program gets, or loses, page-locked memory: by a mapping.
    void add_page_locked(const void *begin, std::size_t size);
    void remove_page_locked(const void *begin);
    [[nodiscard]] bool is_page_locked(const void *begin, std::size_t size) const;

private:
    void let_go(bool all);

    std::deque<std::pair<Event, std::shared_ptr<std::byte[]>>> kept_;
    std::map<const std::byte *, std::pair<const std::byte *, unsigned>> page_locked_;  // end, and how many times
};

}  // namespace cldist::cluster
