#pragma once

#include <functional>
#include <memory>

namespace cldist {

/// Threads for calls that may block. They are started when needed, up to a number, and take jobs in the order in which
/// they were given. Thread-safe.
class IoThreads {
public:
    explicit IoThreads(unsigned most);
    IoThreads(const IoThreads &) = delete;
    IoThreads &operator=(const IoThreads &) = delete;
    /// Waits for nothing: jobs given are still done, as long as the process lives.
    ~IoThreads();

    /// `job` must not throw. If the system has no thread left, and none was started before, the caller does it.
    void run(std::function<void()> job);

private:
    struct State;
    void start_thread();
    static void work(const std::shared_ptr<State> &state);

    const std::shared_ptr<State> state_;
};

}  // namespace cldist
