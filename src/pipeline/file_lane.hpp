#pragma once

#include <memory>

#include "base/io_threads.hpp"
#include "base/line.hpp"

namespace cldist {

/// The queue of transfers on one file, and the thread that makes their calls one by one.
class FileLane : public Line {
public:
    /// The lane for `key`, which identifies a FILE, or a library that only one thread may use at a
    /// time. Thread-safe.
    static std::shared_ptr<FileLane> of(const void *key);
    /// Frees the lanes that were idle for `idle_seconds`.
    static void release_idle(double idle_seconds);

    [[nodiscard]] IoThreads &thread() { return thread_; }

private:
    IoThreads thread_{1};
};

}  // namespace cldist
