#include "pipeline/cleanup.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/file_lane.hpp"
#include "pipeline/ring.hpp"

namespace cldist {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double idle_seconds = 10;
constexpr auto tick = 5s;
constexpr auto moment = 25ms;
// A busy program wakes the thread only once in this time to release buffers.
constexpr auto buffers_pause = 2ms;
constexpr auto patience = 5s;

struct CleanupThread {
    std::mutex mutex;
    std::condition_variable changed;
    bool started = false;
    bool working = false;
    bool clear = false;        ///< free everything unused now
    bool soon = false;         ///< check in a `moment`
    std::vector<Mem> buffers;  ///< of release_later()
    std::vector<void (*)()> at_rounds;
    bool stop = false;
    bool stuck = false;
    unsigned number = 0;  ///< number of the current thread; earlier threads were abandoned
    Clock::time_point begun;
};

CleanupThread &cleanup_thread() {
    // Never destroyed, because its thread may outlive the program's end.
    static auto &instance = *new CleanupThread;
    return instance;
}

void log_stuck() {
    log_warning(
        "the OpenCL driver has not returned from the release of a queue, buffer or context for {} "
        "s; this "
        "release is abandoned",
        patience.count());
}

// Calls `work` without the lock. Returns false if this thread was abandoned in the meantime.
template <typename Work>
bool work_unlocked(std::unique_lock<std::mutex> &lock, unsigned number, Work work) {
    CleanupThread &thread = cleanup_thread();
    thread.working = true;
    thread.begun = Clock::now();
    lock.unlock();
    work();
    lock.lock();
    if (thread.number != number) return false;
    thread.working = false;
    thread.changed.notify_all();
    return true;
}

void run(unsigned number) {
    prctl(PR_SET_NAME, "cldist-cleanup");
    CleanupThread &thread = cleanup_thread();
    std::unique_lock lock(thread.mutex);
    Clock::duration pause = tick;
    Clock::time_point next = Clock::now() + pause;
    for (;;) {
        thread.changed.wait_until(lock, next, [&] {
            return thread.clear || thread.stop || !thread.buffers.empty() ||
                   (thread.soon && Clock::now() + moment < next);
        });
        if (!thread.buffers.empty())
            thread.changed.wait_for(lock, buffers_pause,
                                    [&] { return thread.clear || thread.stop; });
        if (thread.stop) return;
        if (!thread.buffers.empty()) {
            std::vector<Mem> buffers = std::exchange(thread.buffers, {});
            if (!work_unlocked(lock, number, [&] { buffers.clear(); })) return;
        }
        if (thread.soon) next = std::min(next, Clock::now() + moment);
        if (!thread.clear && Clock::now() < next) continue;
        const bool all = std::exchange(thread.clear, false);
        pause =
            std::exchange(thread.soon, false) ? moment : std::min<Clock::duration>(pause * 2, tick);
        const std::vector<void (*)()> at_rounds = thread.at_rounds;
        const bool done = work_unlocked(lock, number, [&] {
            // First, because these objects may hold a queue and through it the context.
            for (void (*const release)() : at_rounds) release();
            DeviceResources::release_unused(all ? 0 : idle_seconds);
            Ring::release_idle(all ? 0 : idle_seconds);
            ImportedMemory::release_idle(all ? 0 : idle_seconds);
            FileLane::release_idle(idle_seconds);
        });
        if (!done) return;
        next = Clock::now() + pause;
    }
}

// If the platform does not return from a release, abandons its thread and starts another one.
void replace_stuck_thread() {
    CleanupThread &thread = cleanup_thread();
    if (!thread.working || Clock::now() - thread.begun < patience || in_forked_child()) return;
    log_stuck();
    thread.working = thread.stuck = false;
    std::thread(run, ++thread.number).detach();
}

// Waits until the thread is idle. Returns false after the time limit.
bool wait_until_idle(std::unique_lock<std::mutex> &lock) {
    CleanupThread &thread = cleanup_thread();
    thread.changed.notify_all();
    thread.stuck = thread.stuck || !thread.changed.wait_for(lock, patience, [&] {
        return !thread.working && !thread.clear;
    });
    return !thread.stuck;
}

void stop_at_exit() {
    if (in_forked_child()) return;
    std::unique_lock lock(cleanup_thread().mutex);
    cleanup_thread().stop = true;
    cleanup_thread().clear = false;
    wait_until_idle(lock);
}

}  // namespace

void start_cleanup_thread() {
    const std::lock_guard lock(cleanup_thread().mutex);
    if (std::exchange(cleanup_thread().started, true)) return;
    watch_for_forks();
    std::thread(run, cleanup_thread().number).detach();
    std::atexit(&stop_at_exit);
}

void at_cleanup_rounds(void (*release)()) {
    const std::lock_guard lock(cleanup_thread().mutex);
    cleanup_thread().at_rounds.push_back(release);
}

void clean_up_soon() {
    // A program that often releases buffers wakes the thread only once per round.
    {
        const std::lock_guard lock(cleanup_thread().mutex);
        replace_stuck_thread();
        if (std::exchange(cleanup_thread().soon, true)) return;
    }
    cleanup_thread().changed.notify_all();
}

void release_later(Mem buffer) {
    if (!buffer || config().path != Path::device) return;
    {
        const std::lock_guard lock(cleanup_thread().mutex);
        cleanup_thread().buffers.push_back(std::move(buffer));
        if (cleanup_thread().buffers.size() > 1) return;
    }
    cleanup_thread().changed.notify_all();
}

void clean_up() {
    std::unique_lock lock(cleanup_thread().mutex);
    if (!cleanup_thread().started || cleanup_thread().stop) return;
    cleanup_thread().clear = true;
    if (!wait_until_idle(lock)) log_stuck();
}

}  // namespace cldist
