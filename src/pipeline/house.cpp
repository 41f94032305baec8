#include "pipeline/house.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

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
constexpr auto patience = 5s;

struct House {
    std::mutex mutex;
    std::condition_variable changed;
    bool lives = false;
    bool works = false;
    bool clear = false;  ///< free everything now
    bool soon = false;   ///< check again soon
    std::vector<void (*)()> at_rounds;
    bool stop = false;
    bool stuck = false;
    unsigned shift = 0;  ///< number of the current thread; earlier threads were abandoned
    Clock::time_point begun;
};

House &house() {
    // Never destroyed, because its thread may outlive the program's end.
    static auto &instance = *new House;
    return instance;
}

void log_stuck() {
    log_warning(
        "the OpenCL driver has not returned from the release of a queue or context for {} s; this release is abandoned",
        patience.count());
}

void live(unsigned shift) {
    prctl(PR_SET_NAME, "cldist-house");
    House &h = house();
    std::unique_lock lock(h.mutex);
    Clock::duration pause = tick;
    Clock::time_point next = Clock::now() + pause;
    for (;;) {
        h.changed.wait_until(lock, next, [&] { return h.clear || h.stop || (h.soon && Clock::now() + moment < next); });
        if (h.stop) return;
        if (h.soon) next = std::min(next, Clock::now() + moment);
        if (!h.clear && Clock::now() < next) continue;
        const bool all = std::exchange(h.clear, false);
        pause = std::exchange(h.soon, false) ? moment : std::min<Clock::duration>(pause * 2, tick);
        const std::vector<void (*)()> at_rounds = h.at_rounds;
        h.works = true;
        h.begun = Clock::now();
        lock.unlock();
        // These objects may hold a queue and through it the context.
        for (void (*const let_go)() : at_rounds) let_go();
        DeviceResources::release_unused(all ? 0 : idle_seconds);
        Ring::release_idle(all ? 0 : idle_seconds);
        ImportedMemory::release_idle(all ? 0 : idle_seconds);
        FileLane::release_idle(idle_seconds);
        lock.lock();
        if (h.shift != shift) return;
        next = Clock::now() + pause;
        h.works = false;
        h.changed.notify_all();
    }
}

// If the platform does not return, another thread takes over.
void relieve() {
    House &h = house();
    if (!h.works || Clock::now() - h.begun < patience || in_forked_child()) return;
    log_stuck();
    h.works = false;
    std::thread(live, ++h.shift).detach();
}

// Waits until the thread is idle. Returns false after the time limit.
bool wait_for_rest(std::unique_lock<std::mutex> &lock) {
    House &h = house();
    h.changed.notify_all();
    h.stuck = h.stuck || !h.changed.wait_for(lock, patience, [&] { return !h.works && !h.clear; });
    return !h.stuck;
}

void stop_at_exit() {
    if (in_forked_child()) return;
    std::unique_lock lock(house().mutex);
    house().stop = true;
    house().clear = false;
    wait_for_rest(lock);
}

}  // namespace

void keep_house() {
    const std::lock_guard lock(house().mutex);
    if (std::exchange(house().lives, true)) return;
    watch_for_forks();
    std::thread(live, house().shift).detach();
    std::atexit(&stop_at_exit);
}

void at_rounds_of_house(void (*let_go)()) {
    const std::lock_guard lock(house().mutex);
    house().at_rounds.push_back(let_go);
}

void clear_house_soon() {
    // A program that often releases buffers wakes the thread only once per round.
    {
        const std::lock_guard lock(house().mutex);
        relieve();
        if (std::exchange(house().soon, true)) return;
    }
    house().changed.notify_all();
}

void clear_house() {
    std::unique_lock lock(house().mutex);
    if (!house().lives || house().stop) return;
    house().clear = true;
    if (!wait_for_rest(lock)) log_stuck();
}

}  // namespace cldist
