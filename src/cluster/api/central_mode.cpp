// The program runs only in rank 0, the host. The other processes execute its calls, report the ends
// of commands, and wait for nothing (docs/dev/decisions/0035).
#include <algorithm>
#include <utility>

#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/guard.hpp"
#include "cluster/api/host_mode.hpp"

namespace cldist::cluster {
namespace {

/// For clFinish on a device of a process other than the host. Returns the marker's event.
Ref<EventObject> run_marker(const Ref<QueueObject> &queue) {
    auto marker =
        executor().run({*queue, CL_COMMAND_MARKER, {}, {}}, true, [&](Enqueued &, const Waits &w) {
            return clEnqueueMarkerWithWaitList(queue->native.get(), w.count, w.events, w.event);
        });
    queue->used = false;
    return marker;
}

const DeviceObject *first_device_to_hold(const ContextObject &context) {
    for (const auto &device : context.devices)
        if (device->process == 0) return device.get();
    return context.devices.front().get();
}

/// Sends the bytes from the host to the process of the first holder, where it returns them.
Blob bring_contents(const ContextObject &context, Blob bytes) {
    return World::get().agreement().from_to(
        World::get().calls().last(), 0, first_device_to_hold(context)->process, std::move(bytes));
}

/// Whether only another process knows the state of an event's command.
bool must_ask(const EventObject &event) {
    const bool is_over = event.known_here() && event.status_here() <= CL_COMPLETE;
    return !event.is_user() && owner_of(event) != 0 && !is_over;
}

/// Whether the call concerns other processes. Waits and queries that this
/// process can answer alone do not.
bool concerns_others(const CallArguments &arguments) {
    const Call &call = arguments.call;
    if (&call == &calls::clFinish) {
        const QueueObject *const queue = QueueObject::from(arguments.as<cl_command_queue>(0));
        return queue != nullptr && !queue->is_native() &&
               queue->used.load(std::memory_order_relaxed);
    }
    const bool asks_times = &call == &calls::clGetEventProfilingInfo;
    if (asks_times || &call == &calls::clGetEventInfo) {
        EventObject *const event = EventObject::from(arguments.as<cl_event>(0));
        if (event == nullptr) return false;
        event->asked = (asks_times || arguments.words[1] == CL_EVENT_COMMAND_EXECUTION_STATUS) &&
                       must_ask(*event);
        return event->asked;
    }
    if (&call != &calls::clWaitForEvents) return true;
    const cl_event *const list = arguments.as<const cl_event *>(1);
    for (std::size_t i = 0; list != nullptr && i < arguments.words[0]; ++i)
        if (const EventObject *const event = EventObject::from(list[i]);
            event != nullptr && !event->known_here())
            return true;
    return false;
}

class CentralMode final : public HostMode {
public:
    void note_call(const CallArguments &arguments) const override {
        World &world = World::get();
        if (world.has_ended() || !arguments.call.is_followed() || !concerns_others(arguments))
            return;
        record(arguments);
        // Never freed: threads may make calls while the program ends.
        static auto &writer = *new RecordWriter;
        writer.clear();
        put_call(writer, arguments);
        world.append(writer.record());
    }

    std::optional<cl_int> wait(const CallHash &,
                               std::span<const Ref<EventObject>> events) const override {
        // The other processes get this call only if the host does not know the end of some event.
        const bool some_unknown =
            std::ranges::any_of(events, [](const auto &event) { return !event->known_here(); });
        for (const auto &event : events) {
            flush_queues_of(*event);
            if (some_unknown && !event->is_user()) tell_end(*event);
        }
        {
            const Unlocked unlocked;
            for (const auto &event : events) wait_for_promise(*event, event->wait_here());
        }
        return first_failure_of(events);
    }

    bool gets_result(const EventObject &event) const override {
        return event.scheduled.told_all || event.known_here();
    }

    cl_int status(EventObject &event) const override {
        if (event.is_user()) return event.status_here();
        ask_if_needed(event);
        return event.visible_status();
    }

    Times times(EventObject &event) const override {
        ask_if_needed(event);
        return event.known_here() && event.visible_status() == CL_COMPLETE ? event.times_here()
                                                                           : Times{};
    }

    void finish(const Ref<QueueObject> &queue) const override {
        if (queue->device->process == 0) {
            finish_here(queue);
            return;
        }
        const auto marker = run_marker(queue);
        tell_end(*marker);
        const auto finished = queue->finished = std::make_shared<Ending>();
        const auto landed = queue->promises.all.landed;
        const Unlocked unlocked;
        marker->wait_here();
        if (landed != nullptr) landed->wait();
        finished->set(CL_COMPLETE);
    }

    void forget_user_events(QueueObject &queue) const override {
        queue.user_events = {};
        World::get().tell_user_events_over(queue.number);
    }

    void tell_end(EventObject &event) const override {
        if (const auto message = executor().schedule().tell_first(event.scheduled))
            event.end_as(executor().ends().receive(*message));
    }

    const DeviceObject *first_holder(const ContextObject &context) const override {
        return first_device_to_hold(context);
    }
    GivenContents given_contents(const ContextObject &context, cl_mem_flags flags, void *host_ptr,
                                 std::size_t size) const override {
        if (host_ptr == nullptr) return {flags, nullptr, nullptr, false};
        const bool is_here = first_device_to_hold(context)->process == 0;
        Blob bytes;
        if (!is_here) bytes.assign(at(host_ptr, 0), at(host_ptr, size));
        bring_contents(context, std::move(bytes));
        return {flags, host_ptr, host_ptr, is_here};
    }
    bool keeps_results(const QueueObject &queue) const override { return queue.is_native(); }
    bool tracks_results() const override { return true; }
    bool maps_natively(const ContextObject &context) const override {
        return context.has_one_memory;
    }
    bool keeps_mapped_memory() const override { return true; }
    void give_memory(QueueObject &queue, MemObject &object, Mapped &mapped) const override {
        executor().memory().give_memory(queue, object, mapped);
    }

    void note_build() const override { World::get().note_build(); }

private:
    /// Gets the command's state from the event's process, which sends it if this call is recorded.
    static void ask_if_needed(EventObject &event) {
        if (!std::exchange(event.asked, false)) return;
        World &world = World::get();
        const Ref<EventObject> held(&event);
        const CallHash call = world.calls().last();
        Blob said;
        if (world.agreement().speaks_for(owner_of(event)))
            // The answer of an absent process.
            said = Packer().put(cl_int{CL_COMPLETE}).put(Times{}).take();
        Blob told;
        {
            const Unlocked unlocked;
            told = world.agreement().from_to(call, owner_of(event), 0, std::move(said));
        }
        Unpacker unpacker(told);
        const auto status = unpacker.get<cl_int>();
        if (status > CL_COMPLETE) return;
        if (event.known_here()) {  // the end arrives in another message
            const Unlocked unlocked;
            event.wait_here();
            return;
        }
        event.end_as(ended(status, unpacker.get<Times>()));
    }

    static void finish_here(const Ref<QueueObject> &queue) {
        const auto finished = queue->finished = std::make_shared<Ending>();
        const CommandId last = executor().steps().last(*queue);
        const auto landed = queue->promises.all.landed;
        {
            const Unlocked unlocked;
            clFinish(queue->native.get());
            if (landed != nullptr) landed->wait();
            finished->set(CL_COMPLETE);
        }
        if (!queue->context->failed) executor().steps().note_success(*queue, last);
    }
};

class FollowerMode final : public HostMode {
public:
    bool has_program() const override { return false; }
    void note_call(const CallArguments &) const override {}

    std::optional<cl_int> wait(const CallHash &,
                               std::span<const Ref<EventObject>> events) const override {
        for (const auto &event : events) {
            flush_queues_of(*event);
            if (!event->is_user()) tell_end(*event);
        }
        return std::nullopt;
    }

    bool gets_result(const EventObject &) const override { return false; }

    cl_int status(EventObject &event) const override {
        if (!event.is_user()) answer(event);
        return CL_QUEUED;  // no program reads this
    }

    Times times(EventObject &event) const override {
        answer(event);
        return {1, 1, 1, 1};  // no program reads these
    }

    void finish(const Ref<QueueObject> &queue) const override {
        if (queue->device->process == 0) return;
        const auto marker = run_marker(queue);
        if (queue->in_order())
            tell_end(*marker);
        else if (const auto message = executor().schedule().tell_first(marker->scheduled))
            executor().ends().send_when_finished(*marker, *message);
    }

    // The host sends a record for this (World::user_events_over).
    void forget_user_events(QueueObject &) const override {}

    void tell_end(EventObject &event) const override {
        if (const auto message = executor().schedule().tell_first(event.scheduled))
            executor().ends().send(event, *message);
    }

    const DeviceObject *first_holder(const ContextObject &context) const override {
        return first_device_to_hold(context);
    }
    GivenContents given_contents(const ContextObject &context, cl_mem_flags flags, void *host_ptr,
                                 std::size_t) const override {
        if (host_ptr == nullptr) return {flags, nullptr, nullptr, false};
        Blob bytes = bring_contents(context, {});
        flags &= ~cl_mem_flags{CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR};
        if (first_device_to_hold(context)->process != World::get().self())
            return {flags, nullptr, nullptr, false};
        void *const brought = bytes.data();
        return {flags | CL_MEM_COPY_HOST_PTR, brought, nullptr, true, std::move(bytes)};
    }
    bool keeps_results(const QueueObject &) const override { return false; }
    bool maps_natively(const ContextObject &) const override { return false; }
    // In a process without the program, the mapping's number replaces its address.
    void give_memory(QueueObject &, MemObject &, Mapped &mapped) const override {
        mapped.memory = reinterpret_cast<void *>(mapped.number);
    }
    void begin_mapping(const Mapped &) const override {}
    void end_mapping(const Mapped &) const override {}

private:
    /// Sends the command's state to the host, if this is the process of the event's device.
    static void answer(EventObject &event) {
        World &world = World::get();
        const Ref<EventObject> held(&event);
        const CallHash call = world.calls().last();
        Blob said;
        if (is_mine(event)) {
            const cl_int status = event.status_here();
            said = Packer()
                       .put(status)
                       .put(status == CL_COMPLETE ? event.times_here() : Times{})
                       .take();
        }
        const Unlocked unlocked;
        world.agreement().from_to(call, owner_of(event), 0, std::move(said));
    }
};

}  // namespace

const HostMode &central_mode() {
    static const CentralMode mode;
    return mode;
}

const HostMode &follower_mode() {
    static const FollowerMode mode;
    return mode;
}

}  // namespace cldist::cluster
