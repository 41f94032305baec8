// Events, and commands that only wait.
#include <algorithm>

#include "base/error_code.hpp"
#include "cluster/api/answers.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/host_mode.hpp"
#include "cluster/api/record.hpp"
#include "cluster/objects/lock.hpp"

namespace cldist::cluster {
namespace {

void enqueue_wait(cl_command_queue queue_handle, cl_command_type type, const WaitList &list,
                  cl_int(CL_API_CALL *native)(cl_command_queue, cl_uint, const cl_event *,
                                              cl_event *)) {
    QueueObject &queue = queue_of(queue_handle);
    const auto waits = wait_list_of(list, *queue.context);
    const auto enqueue_in = [&](QueueObject &in, const Waits &w) {
        // `w` omits ended events and events of other lanes. Without events, the native function
        // would wait for all earlier commands.
        const bool waits_for_events = !waits.empty() && (type == CL_COMMAND_MARKER || w.count == 0);
        return waits_for_events ? enqueue_marker_behind(in, w)
                                : native(in.native.get(), w.count, w.events, w.event);
    };
    if (queue.is_aggregate()) {
        Joint joint(queue, type, waits, list.event != nullptr);
        for (QueueObject *const lane : queue.natives)
            joint.run(
                {.queue = *lane, .type = type, .accesses = {}, .wait_list = {}, .is_part = true},
                [&](Enqueued &, const Waits &w) { return enqueue_in(*lane, w); });
        return give(joint.end(), list.event);
    }
    enqueue({queue, type, {}, waits}, list.event,
            [&](Enqueued &, const Waits &w) { return enqueue_in(queue, w); });
}

}  // namespace

std::vector<EventObject *> checked_wait_list(const WaitList &list, const ContextObject &context) {
    require((list.count == 0) == (list.events == nullptr), CL_INVALID_EVENT_WAIT_LIST,
            "num_events_in_wait_list is {}, but event_wait_list is {}NULL", list.count,
            list.events == nullptr ? "" : "not ");
    std::vector<EventObject *> events;
    for (cl_uint i = 0; i < list.count; ++i) {
        EventObject *const event = EventObject::from(list.events[i]);
        require(event != nullptr, CL_INVALID_EVENT_WAIT_LIST,
                "an event of the wait list is not valid");
        require(event->context.get() == &context, CL_INVALID_CONTEXT,
                "an event of the wait list and the queue belong to different contexts");
        events.push_back(event);
    }
    return events;
}

void wait_for_result(EventObject &event, const CallHash &call) {
    const HostMode &mode = host_mode();
    flush_queues_of(event);
    cl_int status = CL_COMPLETE;
    if (mode.gets_result(event)) {
        const Unlocked unlocked;
        drive_results(event);
        status = event.wait_here();
        wait_for_promise(event, status);
    } else {
        const Ref<EventObject> held(&event);
        const auto end = mode.wait(call, {&held, 1});
        if (!end) return;
        status = *end;
    }
    const auto has_ended = [](const EventObject &ended) {
        if (ended.native() != nullptr && ended.queue->in_order() && !ended.context->failed)
            executor().steps().note_success(*ended.queue, ended.scheduled.command);
    };
    has_ended(event);
    for (const EventPart &part : event.parts()) has_ended(*part.event);
    if (status < 0)
        fail(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             "the command, or a command that it waited for, failed with status {}",
             status_text(status));
}

cl_event create_user_event(cl_context context, cl_int *) {
    EventObject *const event = make<EventObject>(context_of(context));
    if (!World::get().alone() && host_mode().has_program()) event->promise.set = event->ending();
    return event->handle();
}

void set_user_event_status(cl_event event, cl_int status) {
    // Another thread that waits for the event may release it as soon as it is set.
    const Ref<EventObject> held(&event_of(event));
    const auto *const user = std::get_if<UserState>(&held->state);
    require(user != nullptr, CL_INVALID_EVENT, "the event is not a user event");
    require(status <= CL_COMPLETE, CL_INVALID_VALUE,
            "the status is {}; expected CL_COMPLETE (0) or a negative error code", status);
    if (status < 0) held->context->failed = true;
    // With a central host, all processes make all calls in this order, on whatever threads.
    const auto agree = [&] {
        held->agreed = status;
        user->user_event->is_complete = status == CL_COMPLETE;
    };
    const bool at_once = host_mode().orders_calls();
    if (at_once && !held->agreed) agree();
    bool first = false;
    {
        const Unlocked unlocked;
        first = user->ending.get()->set(status);
    }
    require(first, CL_INVALID_OPERATION, "the status of the user event has already been set");
    --held->context->open_user_events;
    // In every process, the creating thread makes this call at the same place among its calls.
    if (!at_once && held->creator == std::this_thread::get_id()) agree();
}

void wait_for_events(cl_uint num_events, const cl_event *list) {
    require(num_events > 0 && list != nullptr, CL_INVALID_VALUE,
            "num_events is {} or the list is NULL; expected at least one event", num_events);
    std::vector<Ref<EventObject>> events;
    for (cl_uint i = 0; i < num_events; ++i) {
        events.emplace_back(&event_of(list[i]));
        require(events.back()->context.get() == events.front()->context.get(), CL_INVALID_CONTEXT,
                "the events belong to different contexts");
    }
    const cl_int least =
        host_mode().wait(World::get().calls().last(), events).value_or(CL_COMPLETE);
    require(least >= 0, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an event has failed");
}

void get_event_info(cl_event event, cl_event_info param, size_t size, void *value,
                    size_t *size_ret) {
    const Ref<EventObject> object(&event_of(event));
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_EVENT_COMMAND_QUEUE:
            return answer.give(object->queue ? object->queue->handle()
                                             : static_cast<cl_command_queue>(nullptr));
        case CL_EVENT_CONTEXT: return answer.give(object->context->handle());
        case CL_EVENT_COMMAND_TYPE: return answer.give(object->type);
        case CL_EVENT_COMMAND_EXECUTION_STATUS: return answer.give(host_mode().status(*object));
        case CL_EVENT_REFERENCE_COUNT: return answer.give(object->references());
        default: no_such_param(param);
    }
}

void get_event_profiling_info(cl_event event, cl_profiling_info param, size_t size, void *value,
                              size_t *size_ret) {
    const Ref<EventObject> object(&event_of(event));
    if (param < CL_PROFILING_COMMAND_QUEUED || param > CL_PROFILING_COMMAND_COMPLETE)
        no_such_param(param);
    require(
        !object->is_user() && (object->queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0,
        CL_PROFILING_INFO_NOT_AVAILABLE,
        "the event is a user event, or its queue was created without CL_QUEUE_PROFILING_ENABLE");
    const Times times = host_mode().times(*object);
    require(times.back() != 0, CL_PROFILING_INFO_NOT_AVAILABLE,
            "the command has not ended, or it has failed");
    // Without device-side enqueue, CL_PROFILING_COMMAND_COMPLETE is the end of the command.
    const cl_profiling_info last = CL_PROFILING_COMMAND_END;
    Answer{size, value, size_ret}.give(
        times.at(std::min(param, last) - CL_PROFILING_COMMAND_QUEUED));
}

CLDIST_REFERENCES(event, cl_event, event_of)

// Each process calls the callback when it knows the status.
void set_event_callback(cl_event event, cl_int type,
                        void(CL_CALLBACK *notify)(cl_event, cl_int, void *), void *user_data) {
    EventObject &object = event_of(event);
    require(notify != nullptr, CL_INVALID_VALUE, "pfn_event_notify is NULL");
    require(type == CL_COMPLETE || type == CL_RUNNING || type == CL_SUBMITTED, CL_INVALID_VALUE,
            "command_exec_callback_type is {}; expected CL_SUBMITTED, CL_RUNNING or CL_COMPLETE",
            type);
    if (!object.is_user()) host_mode().tell_end(object);
    if (!host_mode().has_program()) return;
    const auto call = [notify, user_data, type, event = Ref<EventObject>(&object)](cl_int status) {
        call_elsewhere([=] {
            World::get().confirm_calls();
            notify(event->handle(), status < 0 ? status : type, user_data);
        });
    };
    executor().ends().ending_of(object)->then(
        [call, landed = object.promise.landed](cl_int status) {
            if (status < 0 || landed == nullptr) return call(status);
            landed->then([call](cl_int) { call(CL_COMPLETE); });
        });
}

void enqueue_marker_with_wait_list(cl_command_queue queue, cl_uint num_events,
                                   const cl_event *wait_list, cl_event *event) {
    enqueue_wait(queue, CL_COMMAND_MARKER, {num_events, wait_list, event},
                 &clEnqueueMarkerWithWaitList);
}

void enqueue_barrier_with_wait_list(cl_command_queue queue, cl_uint num_events,
                                    const cl_event *wait_list, cl_event *event) {
    enqueue_wait(queue, CL_COMMAND_BARRIER, {num_events, wait_list, event},
                 &clEnqueueBarrierWithWaitList);
}

void enqueue_marker(cl_command_queue queue, cl_event *event) {
    require(event != nullptr, CL_INVALID_VALUE, "event is NULL");
    enqueue_marker_with_wait_list(queue, 0, nullptr, event);
}

void enqueue_barrier(cl_command_queue queue) {
    enqueue_barrier_with_wait_list(queue, 0, nullptr, nullptr);
}

void enqueue_wait_for_events(cl_command_queue queue, cl_uint num_events, const cl_event *list) {
    require(num_events != 0 && list != nullptr, CL_INVALID_VALUE,
            "num_events is {} or the list is NULL; expected at least one event", num_events);
    for (cl_uint i = 0; i < num_events; ++i) event_of(list[i]);
    enqueue_barrier_with_wait_list(queue, num_events, list, nullptr);
}

}  // namespace cldist::cluster
