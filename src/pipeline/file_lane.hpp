#pragma once

#include <memory>

#include "base/io_threads.hpp"
#include "base/line.hpp"

namespace cldist {

/// The line in which transfers on one file stand, and the thread that does their calls.
class FileLane : public Line {
public:
    /// The lane of whatever `key` names in this process (a FILE, a library that is used by one thread at a time).
    /// Thread-safe.
    static std::shared_ptr<FileLane> of(const void *key);
    /// Lets go of the lanes that nobody used for `idle_seconds`.
    static void release_idle(double idle_seconds);

    [[nodiscard]] IoThreads &thread() { return thread_; }

private:
    IoThreads thread_{1};
};

}  // namespace cldist
