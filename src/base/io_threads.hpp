#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace cldist {

/// A pool of up to `most` threads for calls that may block. Threads start on demand and take jobs
/// in the order of the calls of run(). Thread-safe.
class IoThreads {
public:
    explicit IoThreads(unsigned most);
    IoThreads(const IoThreads &) = delete;
    IoThreads &operator=(const IoThreads &) = delete;
    /// Returns at once. Queued jobs still run, unless the process ends.
    ~IoThreads();

    /// Runs `job`, which must not throw, on a thread of the pool. If there is no thread and the
    /// system cannot create one, the caller runs it.
    void run(std::function<void()> job);

    /// Divides `size` bytes into pieces, and calls `work(begin, end)` for each in several threads,
    /// including the caller's. Returns after the last piece. `work` must not throw.
    void run_in_pieces(std::size_t size, const std::function<void(std::size_t, std::size_t)> &work);

private:
    struct State;
    void start_thread();
    static void work(const std::shared_ptr<State> &state);

    const std::shared_ptr<State> state_;
};

}  // namespace cldist
