#include "cluster/api/host_mode.hpp"

#include <algorithm>

#include "cluster/api/enqueueing.hpp"
#include "ocl/quirks.hpp"

namespace cldist::cluster {

const HostMode &host_mode_of(HostRole role) {
    switch (role) {
        case HostRole::central: return central_mode();
        case HostRole::follower: return follower_mode();
        default: return replicated_mode();
    }
}

bool is_mine(const EventObject &event) {
    return event.is_user() || owner_of(event) == World::get().self();
}

void flush_queues_of(const EventObject &event) {
    if (event.native() != nullptr) flush_if_needed(event.queue->native.get());
    for (const EventPart &part : event.parts()) flush_queues_of(*part.event);
}

void wait_for_promise(const EventObject &event, cl_int status) {
    if (status == CL_COMPLETE && event.promise.landed != nullptr) event.promise.landed->wait();
    World::get().confirm_calls();
}

void drive_results(EventObject &event) {
    for (const EventPart &part : event.parts()) drive_results(*part.event);
    auto *const delivered = std::get_if<DeliveredState>(&event.state);
    if (delivered == nullptr || delivered->by_caller == nullptr) return;
    cl_int status = CL_COMPLETE;
    if (delivered->native) status = wait_for(delivered->native->event.get());
    if (delivered->caller_after != nullptr) delivered->caller_after->wait();
    delivered->by_caller->start(status < 0 ? Status::failure(status, "the command failed")
                                           : Status{});
    executor().transport().drive(*delivered->by_caller);
    delivered->by_caller.reset();
}

cl_int first_failure_of(std::span<const Ref<EventObject>> events) {
    cl_int least = CL_COMPLETE;
    for (const auto &event : events) least = std::min(least, event->status_here());
    return least;
}

}  // namespace cldist::cluster
