// Events, and the commands that only wait. What one process knows of an event all may ask: where they do, they wait for each
// other, so that all see the same.
#include <algorithm>
#include <map>

#include "cluster/entry.hpp"
#include "cluster/entry_points.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

Process owner_of(const EventObject &event) { return event.queue->device->process; }

bool is_mine(const EventObject &event) { return event.is_user() || owner_of(event) == World::get().self(); }

template <typename T>
T told_by_owner(const EventObject &event, T mine) {
    const Blob told = World::get().agreement().from(owner_of(event), Packer().put(mine).take());
    return Unpacker(told).get<T>();
}

/// Waits until every process knows the ends of all, which then are agreed on. Of several threads that wait for one event
/// the first one exchanges it with other processes.
void agree_on_ends(std::span<const Ref<EventObject>> events) {
    Agreement &agreement = World::get().agreement();
    struct Open {
        std::vector<EventObject *> events{};
        Agreement::Turn turn = 0;
    };
    std::map<Process, Open> open;  // by owner
    for (const auto &event : events) {
        if (event->native) clFlush(event->queue->native.get());
        if (event->is_user() || event->agreed || event->agreeing != nullptr) continue;
        event->agreeing = std::make_shared<Ending>();
        open[owner_of(*event)].events.push_back(event.get());
    }
    for (auto &[owner, theirs] : open) theirs.turn = agreement.next_turn();
    {
        const Unlocked unlocked;
        for (const auto &event : events)
            if (event->known_here()) event->wait_here();
        for (const auto &[owner, theirs] : open) {
            std::vector<cl_int> ends;
            for (const EventObject *const event : theirs.events)
                ends.push_back(event->known_here() ? event->status_here() : CL_COMPLETE);
            agreement.tell(owner, std::as_writable_bytes(std::span(ends)), theirs.turn);
            for (std::size_t i = 0; i < ends.size(); ++i) theirs.events[i]->agreeing->set(ends[i]);
        }
        for (const auto &event : events)
            if (event->agreeing != nullptr) event->agreeing->wait();
    }
    for (const auto &event : events)
        if (event->agreeing != nullptr) event->agreed = event->agreeing->status();
}

/// The status now, the same in all processes.
cl_int agree_on_status(EventObject &event) {
    if (event.is_user()) return event.status_here();
    if (event.agreed) return *event.agreed;
    const auto status = told_by_owner(event, is_mine(event) ? event.status_here() : CL_SUBMITTED);
    // What was read is at the owner; it must be here as well.
    if (status == CL_COMPLETE && event.known_here() && !is_mine(event)) {
        const Unlocked unlocked;
        event.wait_here();
    }
    if (status <= CL_COMPLETE) event.agreed = status;
    return status;
}

void enqueue_wait(cl_command_queue queue_handle, cl_command_type type, const WaitList &list,
                  cl_int(CL_API_CALL *native)(cl_command_queue, cl_uint, const cl_event *, cl_event *)) {
    QueueObject &queue = queue_of(queue_handle);
    const auto waits = wait_list_of(list, *queue.context);
    enqueue({queue, type, {}, waits}, list.event,
            [&](Enqueued &, const Waits &w) { return native(queue.native.get(), w.count, w.events, w.event); });
}

}  // namespace

std::vector<EventObject *> wait_list_of(const WaitList &list, const ContextObject &context) {
    require((list.count == 0) == (list.events == nullptr), CL_INVALID_EVENT_WAIT_LIST,
            "num_events_in_wait_list and event_wait_list don't go together");
    std::vector<EventObject *> events;
    for (cl_uint i = 0; i < list.count; ++i) {
        EventObject *const event = EventObject::from(list.events[i]);
        require(event != nullptr, CL_INVALID_EVENT_WAIT_LIST, "an event of the wait list is not valid");
        require(event->context.get() == &context, CL_INVALID_CONTEXT,
                "an event of the wait list is of another context");
        events.push_back(event);
    }
    return events;
}

namespace {

// The calling thread does the work.
void drive_result(EventObject &event) {
    cl_int status = CL_COMPLETE;
    if (event.native) status = wait_for(event.native.get());
    event.result->start(status < 0 ? Status::failure(status, "the command failed") : Status{});
    drive(*event.result, caller_driver());
    event.result.reset();
}

}  // namespace

void wait_for_result(EventObject &event) {
    if (!event.known_here()) return;
    cl_int status = CL_COMPLETE;
    if (event.native) clFlush(event.queue->native.get());
    {
        const Unlocked unlocked;
        if (event.result) drive_result(event);
        status = event.wait_here();
    }
    if (event.native && event.queue->in_order())
        event.queue->ended = std::max(event.queue->ended, event.scheduled.command);
    if (status < 0)
        fail(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "the command, or one that it waited for, failed with {}",
             status);
}

cl_event CL_API_CALL create_user_event(cl_context context, cl_int *errcode_ret) {
    return creating_entry("clCreateUserEvent", errcode_ret, [&] {
        static constexpr CallSite site{"clCreateUserEvent", "context"};
        record<site>(context);

        EventObject *const event = make<EventObject>(context_of(context), nullptr, CL_COMMAND_USER);
        event->ending = std::make_shared<Ending>();
        return event->handle();
    });
}

cl_int CL_API_CALL set_user_event_status(cl_event event, cl_int status) {
    return entry("clSetUserEventStatus", [&] {
        static constexpr CallSite site{"clSetUserEventStatus", "event, status"};
        EventObject &object = event_of(event);
        // Other threads than the event's own, and callbacks, come at another moment in each process.
        if (object.creator == std::this_thread::get_id()) record<site>(event, status);
        require(object.is_user(), CL_INVALID_EVENT, "the event is no user event");
        require(status <= CL_COMPLETE, CL_INVALID_VALUE, "the status is neither CL_COMPLETE nor negative");
        bool first = false;
        {
            const Unlocked unlocked;
            first = object.ending->set(status);
        }
        require(first, CL_INVALID_OPERATION, "the status was set before");
        --object.context->open_user_events;
    });
}

cl_int CL_API_CALL wait_for_events(cl_uint num_events, const cl_event *list) {
    return entry("clWaitForEvents", [&] {
        static constexpr CallSite site{"clWaitForEvents", "num_events, event"};
        record<site>(num_events, list != nullptr && num_events > 0 ? list[0] : nullptr);

        require(num_events > 0 && list != nullptr, CL_INVALID_VALUE, "there are no events");
        std::vector<Ref<EventObject>> events;
        for (cl_uint i = 0; i < num_events; ++i) {
            events.emplace_back(&event_of(list[i]));
            require(events.back()->context.get() == events.front()->context.get(), CL_INVALID_CONTEXT,
                    "the events are not of one context");
        }
        agree_on_ends(events);
        require(std::none_of(events.begin(), events.end(), [](const auto &event) { return event->status_here() < 0; }),
                CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an event has failed");
    });
}

cl_int CL_API_CALL get_event_info(cl_event event, cl_event_info param, size_t size, void *value, size_t *size_ret) {
    return entry("clGetEventInfo", [&] {
        static constexpr CallSite site{"clGetEventInfo", "event, param"};
        if (!in_callback()) record<site>(event, param);

        const Ref<EventObject> object(&event_of(event));
        const Answer answer{size, value, size_ret};
        switch (param) {
            case CL_EVENT_COMMAND_QUEUE:
                return answer.give(object->queue ? object->queue->handle() : static_cast<cl_command_queue>(nullptr));
            case CL_EVENT_CONTEXT: return answer.give(object->context->handle());
            case CL_EVENT_COMMAND_TYPE: return answer.give(object->type);
            case CL_EVENT_COMMAND_EXECUTION_STATUS:
                return answer.give(in_callback() ? object->status_here() : agree_on_status(*object));
            case CL_EVENT_REFERENCE_COUNT: return answer.give(object->references());
            default: no_such_param(param);
        }
    });
}

cl_int CL_API_CALL get_event_profiling_info(cl_event event, cl_profiling_info param, size_t size, void *value,
                                            size_t *size_ret) {
    return entry("clGetEventProfilingInfo", [&] {
        static constexpr CallSite site{"clGetEventProfilingInfo", "event, param"};
        if (!in_callback()) record<site>(event, param);

        const Ref<EventObject> object(&event_of(event));
        if (param < CL_PROFILING_COMMAND_QUEUED || param > CL_PROFILING_COMMAND_COMPLETE) no_such_param(param);
        require(!object->is_user() && (object->queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0,
                CL_PROFILING_INFO_NOT_AVAILABLE, "the event is a user event, or its queue is without profiling");
        Times times{};
        if (object->known_here() && object->status_here() == CL_COMPLETE)
            times = object->native ? times_of(object->native.get()) : object->ending->times();
        if (!in_callback()) times = told_by_owner(*object, times);
        require(times.back() != 0, CL_PROFILING_INFO_NOT_AVAILABLE, "the command has not ended, or failed");
        // CL_PROFILING_COMMAND_COMPLETE is the end of the command where nothing is enqueued on devices.
        const cl_profiling_info last = CL_PROFILING_COMMAND_END;
        Answer{size, value, size_ret}.give(times.at(std::min(param, last) - CL_PROFILING_COMMAND_QUEUED));
    });
}

cl_int CL_API_CALL retain_event(cl_event event) {
    return entry("clRetainEvent", [&] { event_of(event).retain(); });
}

cl_int CL_API_CALL release_event(cl_event event) {
    return entry("clReleaseEvent", [&] { event_of(event).release(); });
}

// Called in each process, when it knows.
cl_int CL_API_CALL set_event_callback(cl_event event, cl_int type, void(CL_CALLBACK *notify)(cl_event, cl_int, void *),
                                      void *user_data) {
    return entry("clSetEventCallback", [&] {
        static constexpr CallSite site{"clSetEventCallback", "event, type"};
        record<site>(event, type);

        EventObject &object = event_of(event);
        require(notify != nullptr, CL_INVALID_VALUE, "pfn_event_notify is NULL");
        require(type == CL_COMPLETE || type == CL_RUNNING || type == CL_SUBMITTED, CL_INVALID_VALUE,
                "command_exec_callback_type is none of CL_SUBMITTED, CL_RUNNING and CL_COMPLETE");
        World &world = World::get();
        if (!object.is_user()) world.executor().tell_all(object);
        object.make_ending()->then([notify, user_data, type, event = Ref<EventObject>(&object)](cl_int status) {
            call_elsewhere([=] { notify(event->handle(), status < 0 ? status : type, user_data); });
        });
    });
}

cl_int CL_API_CALL enqueue_marker_with_wait_list(cl_command_queue queue, cl_uint num_events, const cl_event *wait_list,
                                                 cl_event *event) {
    return entry("clEnqueueMarkerWithWaitList", [&] {
        static constexpr CallSite site{"clEnqueueMarkerWithWaitList", "queue, events"};
        record<site>(queue, num_events);

        enqueue_wait(queue, CL_COMMAND_MARKER, {num_events, wait_list, event}, &clEnqueueMarkerWithWaitList);
    });
}

cl_int CL_API_CALL enqueue_barrier_with_wait_list(cl_command_queue queue, cl_uint num_events, const cl_event *wait_list,
                                                  cl_event *event) {
    return entry("clEnqueueBarrierWithWaitList", [&] {
        static constexpr CallSite site{"clEnqueueBarrierWithWaitList", "queue, events"};
        record<site>(queue, num_events);

        enqueue_wait(queue, CL_COMMAND_BARRIER, {num_events, wait_list, event}, &clEnqueueBarrierWithWaitList);
    });
}

cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_event *event) {
    if (event == nullptr) return CL_INVALID_VALUE;
    return enqueue_marker_with_wait_list(queue, 0, nullptr, event);
}

cl_int CL_API_CALL enqueue_barrier(cl_command_queue queue) {
    return enqueue_barrier_with_wait_list(queue, 0, nullptr, nullptr);
}

cl_int CL_API_CALL enqueue_wait_for_events(cl_command_queue queue, cl_uint num_events, const cl_event *list) {
    if (num_events == 0 || list == nullptr) return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < num_events; ++i)
        if (EventObject::from(list[i]) == nullptr) return CL_INVALID_EVENT;
    return enqueue_barrier_with_wait_list(queue, num_events, list, nullptr);
}

}  // namespace cldist::cluster
