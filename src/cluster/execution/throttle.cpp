#include "cluster/execution/throttle.hpp"

#include <utility>

#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {
namespace {

// Commands between two markers (without and with CPU devices), and the largest number of open ones.
constexpr unsigned milestone = 32;
constexpr unsigned milestone_of_cpus = 1024;
constexpr std::size_t most_milestones = 2;

}  // namespace

// A driver may block all calls when too many commands wait, even a call that would end the waiting.
// So the program must not get that far ahead of the device. It is not held back while it has user
// events to set, because commands may wait for these events. On a CPU device, waiting commands take
// only memory. There, markers may never end after a command that failed.
Event Throttle::marker_to_wait_for(QueueObject &queue) {
    Ahead &ahead = queues_[&queue];
    if (ahead.since_marker < milestone || queue.context->open_user_events != 0) return {};
    if (queue.space->resources()->is_cpu() && (ahead.since_marker < milestone_of_cpus ||
                                               !queue.in_order() || queue.context->is_careful()))
        return {};
    ahead.since_marker = 0;
    Event marker;
    check(clEnqueueMarkerWithWaitList(queue.native.get(), 0, nullptr, marker.out()),
          "clEnqueueMarkerWithWaitList");
    flush_if_needed(queue.native.get());
    ahead.milestones.push_back(std::move(marker));
    if (ahead.milestones.size() <= most_milestones) return {};
    Event first = std::move(ahead.milestones.front());
    ahead.milestones.pop_front();
    return first;
}

std::vector<Event> Throttle::markers_to_wait_for(QueueObject &queue) {
    std::vector<Event> markers;
    for (QueueObject *const each : queue.natives)
        if (Event marker = marker_to_wait_for(*each)) markers.push_back(std::move(marker));
    return markers;
}

}  // namespace cldist::cluster
