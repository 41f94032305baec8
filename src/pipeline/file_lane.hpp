#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/io_threads.hpp"

namespace cldist {

/// The line in which transfers on one file stand, and the thread that does their calls.
class FileLane {
public:
    /// The lane of whatever `key` names in this process (a FILE, a library that is used by one thread at a time).
    /// Thread-safe.
    static std::shared_ptr<FileLane> of(const void *key);
    /// Lets go of the lanes that nobody used for `idle_seconds`.
    static void release_idle(double idle_seconds);

    /// Stands in line. `on_first` is called when `who` has become first, unless it was at once, by the thread of who left.
    void enter(const void *who, std::function<void()> on_first);
    [[nodiscard]] bool is_first(const void *who) const;
    /// Wherever in the line it stands; does nothing if it does not.
    void leave(const void *who);

    [[nodiscard]] IoThreads &thread() { return thread_; }

private:
    struct Place {
        const void *who;
        std::function<void()> on_first;
    };

    mutable std::mutex mutex_;
    std::deque<Place> line_;
    IoThreads thread_{1};
};

}  // namespace cldist
