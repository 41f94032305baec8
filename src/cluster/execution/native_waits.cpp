#include "cluster/execution/native_waits.hpp"

#include <utility>

#include "ocl/query.hpp"

namespace cldist::cluster {

// A proxy ends after the command is enqueued (Quirks::loses_commands_behind_failures).
void NativeWaits::add(EventObject &event, Space &space) {
    const NativeCommand *const native = event.native();
    if (native != nullptr && native->space == &space) return events_.push_back(native->event.get());
    for (const auto &[of, proxy] : event.proxies)
        if (of == &space) return events_.push_back(proxy.get());
    Event proxy = create("clCreateUserEvent", clCreateUserEvent, space.context.get());
    events_.push_back(proxy.get());
    event.proxies.emplace_back(&space, std::move(proxy));
    once_enqueued_.push_back({ends_.ending_of(event), Event::share(events_.back())});
}

void NativeWaits::add(const std::shared_ptr<Ending> &ending, Space &space) {
    if (Event event = event_of(ending, space)) add(std::move(event));
}

void NativeWaits::add(Event event) {
    events_.push_back(event.get());
    kept_.push_back(std::move(event));
}

// The command waits for one user event, which ends after all events of the list, and fails if any
// of them failed. The steps keep the command's event until then (Quirks::uses_ended_events). The
// user event ends after the command is enqueued. Otherwise clFinish might not end.
void NativeWaits::merge(const Enqueued &command, Steps &steps, bool has_user_events) {
    QueueObject &queue = command.queue;
    Space &space = *queue.space;
    if (queue.in_order()) steps.add_last(queue, space, events_);
    if (events_.size() == 1 && !queue.has_barrier && !has_user_events) return;
    const EventObject *const only =
        events_.size() == 1 && command.wait_list.size() == 1 ? command.wait_list[0] : nullptr;
    // Then waits for the ending, not for the native event that follows it: a failed event may call
    // no callback, so its failure would be noticed late.
    const bool tells = only != nullptr && only->native() == nullptr && only->agreed != CL_COMPLETE;
    auto all = tells ? only->ending() : ends_.ending_of_all(events_);
    Event one = create("clCreateUserEvent", clCreateUserEvent, space.context.get());
    events_.assign(1, one.get());
    kept_.push_back(Event::share(one.get()));
    once_enqueued_.push_back({std::move(all), std::move(one)});
}

void NativeWaits::settle(const std::function<void(cl_int status)> &keep) {
    for (const Proxy &proxy : std::exchange(once_enqueued_, {})) {
        end_alike(*proxy.ending, proxy.event.get());
        if (keep) proxy.ending->then(keep);
    }
}

}  // namespace cldist::cluster
