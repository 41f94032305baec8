#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/calls/call.hpp"

namespace cldist::cluster {

/// The state of a user event, which commands that wait for it share.
struct UserEvent {
    std::uint64_t number;      ///< unique, never reused; the same in all processes
    bool is_complete = false;  ///< all processes know that it is set to CL_COMPLETE
};

/// A set of user events, the same in all processes: an event is removed when all processes know, at
/// the same point of the program, that it is set to CL_COMPLETE. Under the lock.
class OpenUserEvents {
public:
    void add(std::shared_ptr<const UserEvent> event) {
        if (event->is_complete) return;
        if (many_ != 0) {
            many_ = mixed(many_ + event->number);
            return;
        }
        if (std::ranges::find(events_, event) != events_.end()) return;
        events_.push_back(std::move(event));
        if (events_.size() > most) become_many(name());
    }
    void add(const OpenUserEvents &others) {
        if (others.many_ != 0 && many_ != others.many_)
            become_many(any() ? mixed(name() + others.many_) : others.many_);
        else
            for (const auto &event : others.events_) add(event);
    }
    /// Whether the set contains events. Remains true after more than `most` were added.
    [[nodiscard]] bool any() const {
        if (!events_.empty())
            std::erase_if(events_, [](const auto &event) { return event->is_complete; });
        return many_ != 0 || !events_.empty();
    }
    /// A hash of the set; 0 if it is empty. After more than `most` events were added, adding an
    /// event again may change the hash.
    [[nodiscard]] std::uint64_t name() const {
        if (!any() || many_ != 0) return many_;
        std::uint64_t sum = 0;
        for (const auto &event : events_) sum += mixed(event->number);
        return std::max<std::uint64_t>(sum, 1);
    }

private:
    static constexpr std::size_t most = 16;

    void become_many(std::uint64_t name) {
        events_.clear();
        many_ = std::max<std::uint64_t>(name, 1);
    }

    mutable std::vector<std::shared_ptr<const UserEvent>> events_;
    std::uint64_t many_ = 0;  // the hash of a set that is too large to store; otherwise 0
};

}  // namespace cldist::cluster
