#include "cluster/objects/event.hpp"

#include <algorithm>
#include <unordered_set>

#include <CL/cl_ext_dist.h>

#include "cluster/objects/lock.hpp"
#include "events/bridge.hpp"

namespace cldist::cluster {

cl_int wait_for(cl_event event) {
    clWaitForEvents(1, &event);
    return execution_status(event);
}

namespace {

Times native_times(cl_event event) {
    Times times{};
    for (cl_uint i = 0; i < times.size(); ++i)
        if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i],
                                    &times[i], nullptr) != CL_SUCCESS)
            return {};
    return times;
}

}  // namespace

Times times_of(cl_event event, const std::shared_ptr<const Times> &own) {
    if (own != nullptr) return *own;
    Times times = native_times(event);
    // The times of markers may be up to seconds too early.
    for (std::size_t i = 1; i < times.size(); ++i) times[i] = std::max(times[i], times[i - 1]);
    return times;
}

Times longer(const Times &a, const Times &b) {
    return std::pair(a[3] - a[2], a[3]) < std::pair(b[3] - b[2], b[3]) ? b : a;
}

void end_alike(Ending &ending, cl_event user_event) {
    clRetainEvent(user_event);
    ending.then([user_event](cl_int status) {
        set_user_event(user_event, status);
        clReleaseEvent(user_event);
    });
}

Event event_of(const std::shared_ptr<Ending> &ending, const Space &space) {
    if (ending == nullptr || ending->over()) return {};
    Event event = create("clCreateUserEvent", clCreateUserEvent, space.context.get());
    clRetainEvent(event.get());
    ending->then([native = event.get()](cl_int) {
        clSetUserEventStatus(native, CL_COMPLETE);
        clReleaseEvent(native);
    });
    return event;
}

namespace {

// Under the lock.
std::unordered_set<EventObject *> &all_user_events() {
    static auto &all = *new std::unordered_set<EventObject *>;
    return all;
}

}  // namespace

EventObject::EventObject(ContextObject &context_in) : context(&context_in), type(CL_COMMAND_USER) {
    static std::uint64_t made = 0;
    const auto user_event = std::make_shared<UserEvent>(UserEvent{++made});
    state = UserState{{std::make_shared<Ending>()}, user_event};
    user_events.add(user_event);
    all_user_events().insert(this);
    ++context->open_user_events;
}

EventObject::~EventObject() {
    if (!is_user()) return;
    all_user_events().erase(this);
    if (!ending()->over()) --context->open_user_events;
}

void abandon_user_events() {
    std::vector<std::shared_ptr<Ending>> open;
    {
        const Locked lock;
        for (const EventObject *const event : all_user_events()) open.push_back(event->ending());
    }
    for (const auto &ending : open) ending->set(CL_TRANSFER_ABANDONED);
}

namespace {

constexpr auto join_user_events = [](const OpenUserEvents &a, const OpenUserEvents &b) {
    OpenUserEvents both = a;
    both.add(b);
    return both;
};

}  // namespace

OpenUserEvents user_events_before(const QueueObject &queue, Ordering ordering,
                                  std::span<EventObject *const> wait_list) {
    const QueuePromises<OpenUserEvents> &before =
        queue.whole != nullptr ? queue.whole->user_events : queue.user_events;
    OpenUserEvents events;
    for (const EventObject *const event : wait_list)
        if (event->may_fail()) events.add(event->user_events);
    if (!before.all.any()) return events;
    return promised_before(before, ordering, std::span<const OpenUserEvents>(&events, 1),
                           join_user_events);
}

void note_user_events(QueueObject &queue, Ordering ordering, const OpenUserEvents &events) {
    const bool any = events.any();
    if (!any && !queue.behind_user_events.load(std::memory_order_relaxed)) return;
    if (any) {
        promise_of_next(queue.user_events, ordering, events, std::span<const OpenUserEvents>(),
                        join_user_events);
        ++queue.user_events_noted;
    }
    const OpenUserEvents &of_next =
        queue.in_order() ? queue.user_events.all : queue.user_events.before;
    queue.behind_user_events.store(of_next.any(), std::memory_order_relaxed);
}

cl_int JointState::status() const {
    if (ending.get() != nullptr && ending.get()->over()) return ending.get()->status();
    cl_int open = CL_COMPLETE;
    cl_int failed = CL_COMPLETE;
    for (const EventPart &part : parts) {
        const cl_int status = part.event->status_here();
        open = std::max(open, status);
        if (part.may_fail_command) failed = std::min(failed, status);
    }
    return open != CL_COMPLETE ? open : failed;
}

Times JointState::times() const {
    if (ending.get() != nullptr && ending.get()->over()) return ending.get()->times();
    Times longest{};
    for (const EventPart &part : parts)
        if (part.does_work) longest = longer(longest, part.event->times_here());
    return longest;
}

cl_int EventObject::wait_here() const {
    if (ending() != nullptr) return ending()->wait();
    if (native() != nullptr) return wait_for(native()->event.get());
    cl_int failed = CL_COMPLETE;
    for (const EventPart &part : parts()) {
        const cl_int status = part.event->wait_here();
        if (part.may_fail_command) failed = std::min(failed, status);
    }
    return failed;
}

const NativeCommand *EventObject::native() const {
    if (const auto *const command = std::get_if<NativeState>(&state)) return command;
    const auto *const delivered = std::get_if<DeliveredState>(&state);
    return delivered != nullptr && delivered->native ? &*delivered->native : nullptr;
}

}  // namespace cldist::cluster
