#include "base/line.hpp"

#include <algorithm>
#include <utility>

namespace cldist {

void Line::enter(const void *who, std::function<void()> on_first) {
    const std::lock_guard lock(mutex_);
    line_.push_back({who, std::move(on_first)});
}

bool Line::is_first(const void *who) const {
    const std::lock_guard lock(mutex_);
    return !line_.empty() && line_.front().who == who;
}

void Line::leave(const void *who) {
    std::function<void()> next;
    {
        const std::lock_guard lock(mutex_);
        const auto at = std::find_if(line_.begin(), line_.end(),
                                     [&](const Waiting &waiting) { return waiting.who == who; });
        if (at == line_.end()) return;
        const bool was_first = at == line_.begin();
        line_.erase(at);
        if (was_first && !line_.empty()) next = line_.front().on_first;
    }
    if (next) next();
}

}  // namespace cldist
