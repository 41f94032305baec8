#pragma once

#include <deque>
#include <functional>
#include <mutex>

namespace cldist {

/// A first-in-first-out queue of users of one resource. Thread-safe.
class Line {
public:
    /// Appends `who`. If it is not first at once, the thread whose leave() makes it first calls
    /// `on_first`.
    void enter(const void *who, std::function<void()> on_first);
    [[nodiscard]] bool is_first(const void *who) const;
    /// Removes `who` from any position. Does nothing if `who` is absent.
    void leave(const void *who);

private:
    struct Waiting {
        const void *who;
        std::function<void()> on_first;
    };

    mutable std::mutex mutex_;
    std::deque<Waiting> line_;
};

}  // namespace cldist
