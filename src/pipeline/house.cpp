#include "pipeline/house.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "pipeline/device_resources.hpp"
#include "pipeline/file_lane.hpp"

namespace cldist {
namespace {

using namespace std::chrono_literals;

constexpr double idle_seconds = 10;
constexpr auto tick = 5s;
constexpr auto patience = 5s;

struct House {
    std::mutex mutex;
    std::condition_variable changed;
    bool lives = false;
    bool works = false;
    bool clear = false;  ///< of everything, now
    bool stop = false;
    bool stuck = false;
};

House &house() {
    // Never destroyed: its thread may outlive the program's end.
    static auto &instance = *new House;
    return instance;
}

void live() {
    prctl(PR_SET_NAME, "cldist-house");
    House &h = house();
    std::unique_lock lock(h.mutex);
    for (;;) {
        h.changed.wait_for(lock, tick, [&] { return h.clear || h.stop; });
        if (h.stop) return;
        const bool all = std::exchange(h.clear, false);
        h.works = true;
        lock.unlock();
        DeviceResources::release_idle(all ? 0 : idle_seconds);
        FileLane::release_idle(idle_seconds);
        lock.lock();
        h.works = false;
        h.changed.notify_all();
    }
}

// Whether the thread has come to rest.
bool wait_for_rest(std::unique_lock<std::mutex> &lock) {
    House &h = house();
    h.changed.notify_all();
    h.stuck = h.stuck || !h.changed.wait_for(lock, patience, [&] { return !h.works && !h.clear; });
    return !h.stuck;
}

void stop_at_exit() {
    std::unique_lock lock(house().mutex);
    house().stop = true;
    house().clear = false;
    wait_for_rest(lock);
}

}  // namespace

void keep_house() {
    const std::lock_guard lock(house().mutex);
    if (std::exchange(house().lives, true)) return;
    std::thread(live).detach();
    std::atexit(&stop_at_exit);
}

void clear_house() {
    std::unique_lock lock(house().mutex);
    if (!house().lives || house().stop) return;
    house().clear = true;
    if (!wait_for_rest(lock))
        log_warning("the platform has not returned from the release of a queue or context for {} s; going on without",
                    patience.count());
}

}  // namespace cldist
