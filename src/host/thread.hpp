#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace cldist::host {

inline constexpr std::uint32_t main_thread = 1;  ///< Thread::id

/// The state of each thread.
struct Thread {
    /// The same in all processes. 0: the program did not start the thread.
    std::uint32_t id = 0;
    std::uint32_t started = 0;       ///< how many threads it has started
    std::uint32_t opencl_calls = 0;  ///< nested OpenCL calls: callbacks make calls within a call
    /// It is in an OpenCL call whose order among all threads' calls matters.
    std::atomic<bool> ordered = false;
    bool in_callbacks = false;  ///< it runs the program's callbacks at the end of an OpenCL call
    /// It is in a wrapped call. Calls of a signal handler then get this process's own results.
    bool inside = false;
    bool sends_itself = false;  ///< it is sending a signal to itself
    bool alone = false;         ///< a wait for rank 0 has timed out; the thread does not wait again
    std::uint32_t follows = 0;  ///< within a wrapped call: the thread of rank 0 that it follows
    std::uint64_t drawn = 0;    ///< random bytes
    std::uint64_t block_number = ~std::uint64_t{0};
    std::uint32_t block[16] = {};

    static constexpr int patience_of_others_ms = 3000;  ///< of threads other than the main thread
    /// How long it waits for rank 0, in ms; -1: no limit.
    [[nodiscard]] int patience_ms() const {
        return id == main_thread ? -1 : alone ? 0 : patience_of_others_ms;
    }
};
extern thread_local Thread this_thread;
/// Registers this_thread as a thread of the program for the object's lifetime.
class KnownThread {
public:
    KnownThread();
    KnownThread(const KnownThread &) = delete;
    KnownThread &operator=(const KnownThread &) = delete;
    ~KnownThread();
};

/// The calling thread's calls are not wrapped during the object's lifetime.
class Inside {
public:
    Inside() : before_(std::exchange(this_thread.inside, true)) {
        if (!before_) this_thread.follows = 0;
    }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;
    ~Inside() { this_thread.inside = before_; }

private:
    bool before_;
};

/// Restores errno in its destructor.
class SameErrno {
public:
    SameErrno() = default;
    SameErrno(const SameErrno &) = delete;
    SameErrno &operator=(const SameErrno &) = delete;
    ~SameErrno() { errno = code_; }

private:
    int code_ = errno;
};

}  // namespace cldist::host
