#include "events/remains.hpp"

#include <iterator>
#include <utility>

#include "base/clock.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist {

void Remains::keep(std::unique_ptr<Bridge> bridge, std::vector<Event> events) {
    const cl_event event = !events.empty()                    ? events.front().get()
                           : bridge->has_user_visible_event() ? bridge->user_visible_event()
                                                              : bridge->start().gate;
    Device device = Device::share(device_of(event));
    const bool used_on = quirks_of(device.get()).uses_ended_events;
    const std::lock_guard lock(mutex_);
    kept_.push_back({std::move(device), std::move(bridge), std::move(events), now_ns(), used_on});
}

void Remains::release() {
    // With Quirks::uses_ended_events, objects are kept for at least this long.
    constexpr std::uint64_t least_ns = 1'000'000'000;
    std::vector<Kept> released;  // freed without the lock, because an event may hold the last
                                 // reference to its queue and context
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](Kept &kept) {
        const bool over = (!kept.used_on || now_ns() - kept.since_ns > least_ns) &&
                          (kept.bridge == nullptr || kept.bridge->settled());
        if (over) released.push_back(std::move(kept));
        return over;
    });
}

void Remains::leave_behind(std::vector<std::unique_ptr<Bridge>> bridges) {
    static auto &kept = *new std::vector<Kept>;
    static auto &left = *new std::vector<std::unique_ptr<Bridge>>;
    const std::lock_guard lock(mutex_);
    std::move(kept_.begin(), kept_.end(), std::back_inserter(kept));
    kept_.clear();
    std::move(bridges.begin(), bridges.end(), std::back_inserter(left));
}

}  // namespace cldist
