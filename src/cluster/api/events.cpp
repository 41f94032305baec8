// Events, and the commands that only wait. All processes may query an event that one of them knows.
// Then they wait for each other, so that all see the same.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/clock.hpp"
#include "base/status_text.hpp"
#include "cluster/api/answers.hpp"
#include "cluster/api/checks.hpp"
#include "cluster/api/enqueueing.hpp"
#include "cluster/api/entry_points.hpp"
#include "cluster/api/handles.hpp"
#include "cluster/api/record.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/world/exchange.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

Process owner_of(const EventObject &event) { return event.queue->device->process; }

bool is_mine(const EventObject &event) { return event.is_user() || owner_of(event) == World::get().self(); }

// `mine` of another process's command is what that says if it is absent.
template <typename T>
T told_by_owner(const EventObject &event, T mine) {
    const Blob told = Exchange().from(owner_of(event), Packer().put(mine).take());
    return Unpacker(told).get<T>();
}

void flush_queue_of(const EventObject &event) {
    if (event.native) clFlush(event.queue->native.get());
    for (const auto &[lane, part] : event.parts)
        if (part->native) clFlush(lane->native.get());
}

/// For an event that ended with `status`: the program may use the memory as soon as it sees the
/// end. A failed command promises nothing. Not under the lock.
void wait_for_promise(const EventObject &event, cl_int status) {
    if (status == CL_COMPLETE && event.promise.landed != nullptr) event.promise.landed->wait();
}

/// With a central host, which asks the event's process how its command is getting on, unless it knows that it is over.
void ask_if_needed(EventObject &event) {
    World &world = World::get();
    if (world.is_host() && !must_ask(event)) return;
    const Ref<EventObject> held(&event);
    const CallHash call = world.calls().last();
    Blob said;
    if (is_mine(event)) {
        const cl_int status = event.status_here();
        said = Packer().put(status).put(status == CL_COMPLETE ? event.times_here() : Times{}).take();
    } else if (world.agreement().speaks_for(owner_of(event))) {
        said = Packer().put(cl_int{CL_COMPLETE}).put(Times{}).take();  // of an absent process
    }
    Blob told;
    {
        const Unlocked unlocked;
        told = world.agreement().from_to(call, owner_of(event), 0, std::move(said));
    }
    if (!world.is_host()) return;
    Unpacker unpacker(told);
    const auto status = unpacker.get<cl_int>();
    if (status > CL_COMPLETE) return;
    if (event.known_here()) {  // by a message that is on its way
        const Unlocked unlocked;
        event.wait_here();
        return;
    }
    event.end_as(std::make_shared<Ending>());
    event.ending->set(status, unpacker.get<Times>());
}

/// With a central host: the host waits until it knows the ends of all. The other processes report
/// their ends, and wait for nothing.
void wait_in_host(std::span<const Ref<EventObject>> events) {
    const bool follows = World::get().follows();
    // Those that follow know of the call then.
    const bool some_unknown =
        follows || std::any_of(events.begin(), events.end(), [](const auto &event) { return !event->known_here(); });
    for (const auto &event : events) {
        if (event->native) clFlush(event->queue->native.get());
        if (some_unknown && !event->is_user()) executor().ends().tell_hosts(*event);
    }
    if (follows) return;
    const Unlocked unlocked;
    for (const auto &event : events) wait_for_promise(*event, event->wait_here());
}

// The calling thread does the work.
void drive_result(EventObject &event) {
    cl_int status = CL_COMPLETE;
    if (event.native) status = wait_for(event.native.get());
    if (event.result_after != nullptr) event.result_after->wait();
    event.result->start(status < 0 ? Status::failure(status, "the command failed") : Status{});
    executor().transport().drive(*event.result);
    event.result.reset();
}

void drive_results_of_parts(const EventObject &event) {
    for (const auto &[lane, part] : event.parts)
        if (part->result) drive_result(*part);
}

/// Waits, in a call, until every process knows the ends of all, which then are agreed on. If
/// several threads wait for one event, the first of them exchanges it with other processes.
void agree_on_ends(const CallHash &call, std::span<const Ref<EventObject>> events) {
    if (World::get().is_central()) return wait_in_host(events);
    const Agreement &agreement = World::get().agreement();
    std::map<Process, std::vector<EventObject *>> open;  // by owner
    std::vector<EventObject *> joint;
    for (const auto &event : events) {
        flush_queue_of(*event);
        if (event->is_user() || event->agreed || event->agreeing != nullptr) continue;
        event->agreeing = std::make_shared<Ending>();
        if (event->is_joint())
            joint.push_back(event.get());
        else
            open[owner_of(*event)].push_back(event.get());
    }
    {
        const Unlocked unlocked;
        for (const EventObject *const event : joint) drive_results_of_parts(*event);
        for (const auto &event : events)
            if (event->known_here()) event->wait_here();
        for (const auto &[owner, theirs] : open) {
            Packer ends;
            for (const EventObject *const event : theirs)
                ends.put(event->known_here() ? event->status_here() : CL_COMPLETE);
            const Blob told = agreement.from(call, owner, ends.take());
            Unpacker unpacker(told);
            for (EventObject *const event : theirs) event->agreeing->set(unpacker.get<cl_int>());
        }
        for (EventObject *const event : joint) {
            const cl_int here = event->status_here();
            event->agreeing->set(event->scheduled.told_all || agreement.alone() ? here : agreement.least(call, here));
        }
        for (const auto &event : events) {
            if (event->agreeing != nullptr) event->agreeing->wait();
            wait_for_promise(*event, event->agreeing != nullptr ? event->agreeing->status() : CL_COMPLETE);
        }
    }
    for (const auto &event : events)
        if (event->agreeing != nullptr) event->agreed = event->agreeing->status();
}

/// The status of the sub-range, among all processes, that is furthest from its end. If all have
/// ended, how the command ended.
cl_int status_of_parts(const EventObject &event) {
    // As one number, of which the least counts.
    constexpr cl_int open = -(1 << 30);
    const cl_int here = event.status_here();
    const cl_int least = Exchange().least(here > CL_COMPLETE ? open - here : here);
    return least < open ? open - least : least;
}

/// The longest part's of all processes.
Times times_of_parts(const EventObject &event, const Times &here) {
    std::vector<Process> processes(World::get().agreement().processes());
    std::iota(processes.begin(), processes.end(), Process{0});
    const Blob mine = Packer().put(event.status_here() == CL_COMPLETE).put(here).take();
    Times longest{};
    bool all = true;
    for (const Blob &blob : Exchange().of(processes, [&](Process) { return mine; })) {
        Unpacker unpacker(blob);
        all = unpacker.get<bool>() && all;
        longest = longer(longest, unpacker.get<Times>());
    }
    return all ? longest : Times{};
}

/// The status now, the same in all processes. A thread may have set a user event here, but not yet
/// elsewhere: then it is open.
cl_int agree_on_status(EventObject &event) {
    if (World::get().is_central()) {
        if (event.is_user()) return event.status_here();
        ask_if_needed(event);
        return event.visible_status();
    }
    if (event.agreed) return *event.agreed;
    if (event.is_user()) {
        const cl_int latest = -Exchange().least(-event.status_here());
        if (latest <= CL_COMPLETE) event.agreed = latest;
        return latest;
    }
    const auto status = event.is_joint() ? status_of_parts(event)
                                         : told_by_owner(event, is_mine(event) ? event.status_here() : CL_COMPLETE);
    if (status == CL_COMPLETE) {
        const Unlocked unlocked;
        wait_for_promise(event, status);
    }
    if (status <= CL_COMPLETE) event.agreed = status;
    return status;
}

void enqueue_wait(cl_command_queue queue_handle, cl_command_type type, const WaitList &list,
                  cl_int(CL_API_CALL *native)(cl_command_queue, cl_uint, const cl_event *, cl_event *)) {
    QueueObject &queue = queue_of(queue_handle);
    const auto waits = wait_list_of(list, *queue.context);
    const auto enqueue_in = [&](QueueObject &in, const Waits &w) {
        // Events that have ended, and what other lanes wait for, are left out.
        const bool waits_for_events = !waits.empty() && (type == CL_COMMAND_MARKER || w.count == 0);
        return waits_for_events ? enqueue_marker_behind(in, w) : native(in.native.get(), w.count, w.events, w.event);
    };
    if (queue.is_aggregate()) {
        Joint joint(queue, type, waits, list.event != nullptr);
        for (QueueObject *const lane : queue.own_lanes)
            joint.run({.queue = *lane, .type = type, .accesses = {}, .wait_list = {}, .is_part = true},
                      [&](Enqueued &, const Waits &w) { return enqueue_in(*lane, w); });
        return give(joint.end(), list.event);
    }
    enqueue({queue, type, {}, waits}, list.event, [&](Enqueued &, const Waits &w) { return enqueue_in(queue, w); });
}

}  // namespace

std::vector<EventObject *> checked_wait_list(const WaitList &list, const ContextObject &context) {
    require((list.count == 0) == (list.events == nullptr), CL_INVALID_EVENT_WAIT_LIST,
            "num_events_in_wait_list is {}, but event_wait_list is {}NULL", list.count,
            list.events == nullptr ? "" : "not ");
    std::vector<EventObject *> events;
    for (cl_uint i = 0; i < list.count; ++i) {
        EventObject *const event = EventObject::from(list.events[i]);
        require(event != nullptr, CL_INVALID_EVENT_WAIT_LIST, "an event of the wait list is not valid");
        require(event->context.get() == &context, CL_INVALID_CONTEXT,
                "an event of the wait list and the queue belong to different contexts");
        events.push_back(event);
    }
    return events;
}

bool must_ask(const EventObject &event) {
    const bool is_over = event.known_here() && event.status_here() <= CL_COMPLETE;
    return !event.is_user() && owner_of(event) != 0 && !is_over;
}

void wait_for_result(EventObject &event, const CallHash &call) {
    const World &world = World::get();
    const bool has_result = event.scheduled.told_all || world.alone() || (world.is_host() && event.known_here());
    if (world.follows()) return wait_in_host(std::array{Ref<EventObject>(&event)});
    flush_queue_of(event);
    cl_int status = CL_COMPLETE;
    if (has_result) {
        const Unlocked unlocked;
        if (event.result) drive_result(event);
        drive_results_of_parts(event);
        status = event.wait_here();
        wait_for_promise(event, status);
    } else {
        const Ref<EventObject> held(&event);
        agree_on_ends(call, {&held, 1});
        status = world.is_central() ? event.status_here() : *event.agreed;
    }
    const auto has_ended = [](const EventObject &ended) {
        if (ended.native && ended.queue->in_order() && !ended.context->failed)
            executor().steps().note_success(*ended.queue, ended.scheduled.command);
    };
    has_ended(event);
    for (const auto &[lane, part] : event.parts) has_ended(*part);
    if (status < 0)
        fail(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
             "the command, or a command that it waited for, failed with status {}", status_text(status));
}

cl_event create_user_event(cl_context context, cl_int *) {
    EventObject *const event = make<EventObject>(context_of(context), nullptr, CL_COMMAND_USER);
    event->end_as(std::make_shared<Ending>());
    const World &world = World::get();
    if (!world.alone() && !world.follows()) event->promise.set = event->ending;
    return event->handle();
}

void set_user_event_status(cl_event event, cl_int status) {
    // A thread that waits for it may release it as soon as it is set.
    const Ref<EventObject> held(&event_of(event));
    require(held->is_user(), CL_INVALID_EVENT, "the event is not a user event");
    require(status <= CL_COMPLETE, CL_INVALID_VALUE,
            "the status is {}; expected CL_COMPLETE (0) or a negative error code", status);
    if (status < 0) held->context->failed = true;
    // With a central host all processes make all calls in this order, whatever threads call there.
    const auto agree = [&] {
        held->agreed = status;
        held->user_event->is_complete = status == CL_COMPLETE;
    };
    if (World::get().is_central() && !held->agreed) agree();
    bool first = false;
    {
        const Unlocked unlocked;
        first = held->ending->set(status);
    }
    require(first, CL_INVALID_OPERATION, "the status of the user event has already been set");
    --held->context->open_user_events;
    // Every process's program makes this call at this place of its thread's calls.
    if (!World::get().is_central() && held->creator == std::this_thread::get_id()) agree();
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
    agree_on_ends(World::get().calls().last(), events);
    if (World::get().follows()) return;
    require(std::none_of(events.begin(), events.end(), [](const auto &event) { return event->status_here() < 0; }),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an event has failed");
}

void get_event_info(cl_event event, cl_event_info param, size_t size, void *value, size_t *size_ret) {
    const Ref<EventObject> object(&event_of(event));
    const Answer answer{size, value, size_ret};
    switch (param) {
        case CL_EVENT_COMMAND_QUEUE:
            return answer.give(object->queue ? object->queue->handle() : static_cast<cl_command_queue>(nullptr));
        case CL_EVENT_CONTEXT: return answer.give(object->context->handle());
        case CL_EVENT_COMMAND_TYPE: return answer.give(object->type);
        case CL_EVENT_COMMAND_EXECUTION_STATUS:
            return answer.give(in_callback() && !World::get().is_central() ? object->visible_status()
                                                                           : agree_on_status(*object));
        case CL_EVENT_REFERENCE_COUNT: return answer.give(object->references());
        default: no_such_param(param);
    }
}

void get_event_profiling_info(cl_event event, cl_profiling_info param, size_t size, void *value, size_t *size_ret) {
    const Ref<EventObject> object(&event_of(event));
    if (param < CL_PROFILING_COMMAND_QUEUED || param > CL_PROFILING_COMMAND_COMPLETE) no_such_param(param);
    require(!object->is_user() && (object->queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0,
            CL_PROFILING_INFO_NOT_AVAILABLE,
            "the event is a user event, or its queue was created without CL_QUEUE_PROFILING_ENABLE");
    Times times = object->times.value_or(Times{});
    if (!object->times) {
        if (World::get().is_central()) ask_if_needed(*object);
        if (object->known_here() && object->visible_status() == CL_COMPLETE) times = object->times_here();
        if (!in_callback() && !World::get().is_central()) {
            if (object->is_joint()) {
                times = times_of_parts(*object, times);
            } else {
                if (!is_mine(*object)) times.fill(now_ns());
                times = told_by_owner(*object, times);
            }
            if (times.back() != 0) object->times = times;
        }
    }
    require(times.back() != 0, CL_PROFILING_INFO_NOT_AVAILABLE, "the command has not ended, or it has failed");
    // CL_PROFILING_COMMAND_COMPLETE is the end of the command where nothing is enqueued on devices.
    const cl_profiling_info last = CL_PROFILING_COMMAND_END;
    Answer{size, value, size_ret}.give(times.at(std::min(param, last) - CL_PROFILING_COMMAND_QUEUED));
}

void retain_event(cl_event event) { event_of(event).retain(); }

void release_event(cl_event event) { event_of(event).release(); }

// Called in each process, when it knows.
void set_event_callback(cl_event event, cl_int type, void(CL_CALLBACK *notify)(cl_event, cl_int, void *),
                        void *user_data) {
    EventObject &object = event_of(event);
    require(notify != nullptr, CL_INVALID_VALUE, "pfn_event_notify is NULL");
    require(type == CL_COMPLETE || type == CL_RUNNING || type == CL_SUBMITTED, CL_INVALID_VALUE,
            "command_exec_callback_type is {}; expected CL_SUBMITTED, CL_RUNNING or CL_COMPLETE", type);
    World &world = World::get();
    if (!object.is_user()) world.executor().ends().tell_hosts(object);
    if (world.follows()) return;
    const auto call = [notify, user_data, type, event = Ref<EventObject>(&object)](cl_int status) {
        call_elsewhere([=] { notify(event->handle(), status < 0 ? status : type, user_data); });
    };
    world.executor().ends().ending_of(object)->then([call, landed = object.promise.landed](cl_int status) {
        if (status < 0 || landed == nullptr) return call(status);
        landed->then([call](cl_int) { call(CL_COMPLETE); });
    });
}

void enqueue_marker_with_wait_list(cl_command_queue queue, cl_uint num_events, const cl_event *wait_list,
                                   cl_event *event) {
    enqueue_wait(queue, CL_COMMAND_MARKER, {num_events, wait_list, event}, &clEnqueueMarkerWithWaitList);
}

void enqueue_barrier_with_wait_list(cl_command_queue queue, cl_uint num_events, const cl_event *wait_list,
                                    cl_event *event) {
    enqueue_wait(queue, CL_COMMAND_BARRIER, {num_events, wait_list, event}, &clEnqueueBarrierWithWaitList);
}

void enqueue_marker(cl_command_queue queue, cl_event *event) {
    require(event != nullptr, CL_INVALID_VALUE, "event is NULL");
    enqueue_marker_with_wait_list(queue, 0, nullptr, event);
}

void enqueue_barrier(cl_command_queue queue) { enqueue_barrier_with_wait_list(queue, 0, nullptr, nullptr); }

void enqueue_wait_for_events(cl_command_queue queue, cl_uint num_events, const cl_event *list) {
    require(num_events != 0 && list != nullptr, CL_INVALID_VALUE,
            "num_events is {} or the list is NULL; expected at least one event", num_events);
    for (cl_uint i = 0; i < num_events; ++i) event_of(list[i]);
    enqueue_barrier_with_wait_list(queue, num_events, list, nullptr);
}

}  // namespace cldist::cluster
