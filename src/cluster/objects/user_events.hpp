#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/calls/call.hpp"

namespace cldist::cluster {

/// The part of a user event that commands keep which wait for it.
struct UserEvent {
    std::uint64_t number;      ///< no other one's, ever
    bool is_complete = false;  ///< whether it is set to CL_COMPLETE, as all processes know
};

/// User events of which not all processes know at the same place of the program that they are set
/// to CL_COMPLETE. Under the lock.
class OpenUserEvents {
public:
    void add(std::shared_ptr<const UserEvent> event) {
        if (event->is_complete) return;
        if (many_ != 0) {
            many_ = mixed(many_ + event->number);
            return;
        }
        if (std::find(events_.begin(), events_.end(), event) != events_.end()) return;
        events_.push_back(std::move(event));
        if (events_.size() > most) become_many(name());
    }
    void add(const OpenUserEvents &others) {
        if (others.many_ != 0 && many_ != others.many_)
            become_many(any() ? mixed(name() + others.many_) : others.many_);
        else
            for (const auto &event : others.events_) add(event);
    }
    /// Whether there are some; of many that stays so.
    [[nodiscard]] bool any() const {
        if (!events_.empty())
            std::erase_if(events_, [](const auto &event) { return event->is_complete; });
        return many_ != 0 || !events_.empty();
    }
    /// Equal sets have equal names, and other sets have other names; 0 if there are none. If many
    /// events are added once more, their name may change.
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
    std::uint64_t many_ = 0;  // their name, if they are too many to be kept one by one
};

}  // namespace cldist::cluster
