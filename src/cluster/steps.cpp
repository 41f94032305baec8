#include "cluster/steps.hpp"

#include <algorithm>
#include <utility>

#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

// So many entries without a marker behind them are kept.
constexpr std::size_t most_entries = 4096;

cl_event marker_behind(QueueObject &queue, CommandId command) {
    const auto at = std::lower_bound(queue.markers.begin(), queue.markers.end(), command,
                                     [](const auto &marker, CommandId wanted) { return marker.first < wanted; });
    if (at != queue.markers.end()) return at->second.get();
    cldist::Event event;
    check(clEnqueueMarkerWithWaitList(queue.native.get(), 0, nullptr, event.out()), "clEnqueueMarkerWithWaitList");
    queue.markers.emplace_back(queue.last, std::move(event));
    return queue.markers.back().second.get();
}

}  // namespace

// A command comes behind its transfers, but is its part 0.
void Steps::insert(Entry entry) {
    auto at = entries_.end();
    while (at != entries_.begin() && entry.step < std::prev(at)->step) --at;
    entries_.insert(at, std::move(entry));
}

void Steps::add(Step step, Space &space, cldist::Event event) { insert({step, &space, nullptr, std::move(event)}); }

void Steps::add(Step step, QueueObject &queue) {
    queue.last = step.command;
    insert({step, queue.space, &queue, {}});
}

cl_event Steps::event_of(const Entry &entry) {
    return entry.event ? entry.event.get() : marker_behind(*entry.queue, entry.step.command);
}

void Steps::add_waits(std::span<const Step> steps, Space &space, std::vector<cl_event> &waits) {
    for (const Step &step : steps) {
        auto at = std::lower_bound(entries_.begin(), entries_.end(), step,
                                   [](const Entry &entry, const Step &wanted) { return entry.step < wanted; });
        for (; at != entries_.end() && at->step == step; ++at) {
            if (at->space != &space || has_ended(*at)) continue;
            const cl_event event = event_of(*at);
            if (std::find(waits.begin(), waits.end(), event) == waits.end()) waits.push_back(event);
        }
    }
}

bool Steps::has_ended(const Entry &entry) {
    // What has failed is over, too: a wait list says what must succeed. PoCL 3.1 never ends what waits for such an event.
    if (entry.event) return execution_status(entry.event.get()) <= CL_COMPLETE;
    QueueObject &queue = *entry.queue;
    while (!queue.markers.empty() && execution_status(queue.markers.front().second.get()) <= CL_COMPLETE) {
        queue.ended = std::max(queue.ended, queue.markers.front().first);
        queue.markers.pop_front();
    }
    return entry.step.command <= queue.ended;
}

CommandId Steps::forget_ended() {
    if (entries_.size() > most_entries && !entries_.front().event && !has_ended(entries_.front()))
        static_cast<void>(event_of(entries_.front()));
    while (!entries_.empty()) {
        if (!has_ended(entries_.front())) break;
        over_ = entries_.front().step.command + 1;
        entries_.pop_front();
    }
    if (!entries_.empty()) over_ = std::max(over_, entries_.front().step.command);
    return over_;
}

void Steps::forget_queue(QueueObject &queue) {
    std::erase_if(entries_, [](const Entry &entry) { return has_ended(entry); });
    for (Entry &entry : entries_) {
        if (entry.queue != &queue) continue;
        entry.event = cldist::Event::share(event_of(entry));
        entry.queue = nullptr;
    }
}

std::vector<cldist::Event> Steps::rest() {
    std::vector<cldist::Event> events;
    for (const Entry &entry : entries_)
        if (!has_ended(entry)) events.push_back(cldist::Event::share(event_of(entry)));
    return events;
}

}  // namespace cldist::cluster
