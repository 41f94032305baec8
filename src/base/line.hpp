#pragma once

#include <deque>
#include <functional>
#include <mutex>

namespace cldist {

/// A line in which those stand who take turns. Thread-safe.
class Line {
public:
    /// Stands in line. `on_first` is called when `who` has become first, unless it was at once, by the thread of who left.
    void enter(const void *who, std::function<void()> on_first);
    [[nodiscard]] bool is_first(const void *who) const;
    /// Wherever in the line it stands; does nothing if it does not.
    void leave(const void *who);

private:
    struct Place {
        const void *who;
        std::function<void()> on_first;
    };

    mutable std::mutex mutex_;
    std::deque<Place> line_;
};

}  // namespace cldist
