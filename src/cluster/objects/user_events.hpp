#pragma once

#include <algorithm>
#include <memory>
#include <vector>

namespace cldist::cluster {

/// User events of which not all processes know at the same place of the program that they are set to CL_COMPLETE. Under the lock.
class OpenUserEvents {
public:
    /// `is_complete` is the event's.
    void add(std::shared_ptr<const bool> is_complete) {
        if (are_many_ || *is_complete || std::find(events_.begin(), events_.end(), is_complete) != events_.end())
            return;
        events_.push_back(std::move(is_complete));
        if (events_.size() <= most) return;
        are_many_ = true;
        events_.clear();
    }
    void add(const OpenUserEvents &others) {
        if (others.are_many_) {
            are_many_ = true;
            events_.clear();
        }
        for (const auto &event : others.events_) add(event);
    }
    /// Whether there are some; of many that stays so.
    [[nodiscard]] bool any() const {
        if (!events_.empty()) std::erase_if(events_, [](const auto &is_complete) { return *is_complete; });
        return are_many_ || !events_.empty();
    }

private:
    static constexpr std::size_t most = 16;

    mutable std::vector<std::shared_ptr<const bool>> events_;
    bool are_many_ = false;
};

}  // namespace cldist::cluster
