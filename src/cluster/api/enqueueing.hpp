/// Enqueueing commands and waiting for them.
#pragma once

#include <vector>

#include "cluster/api/joint.hpp"
#include "cluster/objects/lock.hpp"
#include "cluster/world/world.hpp"

namespace cldist::cluster {

/// The last three arguments of every clEnqueue….
struct WaitList {
    cl_uint count;
    const cl_event *events;
    cl_event *event;
};

/// The checked wait list of a command of `context`.
std::vector<EventObject *> checked_wait_list(const WaitList &list, const ContextObject &context);
inline std::vector<EventObject *> wait_list_of(const WaitList &list, const ContextObject &context) {
    if (list.count == 0 && list.events == nullptr) return {};
    return checked_wait_list(list, context);
}

/// Passes an event to the program, if it wants one, with a reference.
inline void give(const Ref<EventObject> &object, cl_event *event) {
    if (event == nullptr) return;
    object->set_number(World::get().next_number());
    object->retain();
    *event = object->handle();
}

/// Waits until this process knows that the command has ended. Leaves the lock while it waits.
/// Throws an Error if the command failed.
void wait_for_result(EventObject &event, const CallHash &call);

/// The last step of an entry point that maps. `map` is the command's event, `part` the event on the
/// device that maps. Passes the event to the program, waits for the contents if the call is
/// blocking, registers the mapping and returns its address. Throws an Error if a blocking map
/// failed.
void *keep_mapping(MemObject &object, Mapped mapped, const Ref<EventObject> &map,
                   const Ref<EventObject> &part, cl_event *event, bool blocking,
                   const CallHash &call);

inline Executor &executor() { return World::get().executor(); }

/// For a command that reads into or writes from `memory`: if the memory belongs to a mapping, it
/// stays allocated until the command has ended.
inline Enqueued with_host_memory(const void *memory, Enqueued &&command) {
    if (auto kept = mapped_memory().keeper_of(memory))
        command.kept = command.result.kept = std::move(kept);
    return std::move(command);
}

/// Leaves out a checked command: only passes an event to the program, if wanted. Takes the lock.
inline void leave_out(QueueObject &queue, cl_command_type type, cl_event *event) {
    if (!queue.used.load(std::memory_order_relaxed))
        queue.used.store(true, std::memory_order_relaxed);
    if (event == nullptr) return;
    const Locked lock;
    EventObject *const object = executor().event_of_left_out(queue, type);
    object->set_number(World::get().next_number());
    *event = object->handle();
}

/// Passes the event to the program and, if the command is blocking, calls wait_for_result().
inline void conclude(const Ref<EventObject> &enqueued, cl_event *event, bool blocking,
                     const CallHash &call) {
    give(enqueued, event);
    if (blocking) wait_for_result(*enqueued, call);
}

/// Enqueues a checked command. If its queue is a lane, it becomes the only part of a command of the
/// whole queue. Returns the command's event, or null if nobody needs it; `part` receives the lane's
/// event. `native` and the Errors are as in Executor::run().
template <typename Native>
Ref<EventObject> run_whole(Enqueued &&command, bool event_wanted, Native &&native,
                           Ref<EventObject> *part = nullptr) {
    if (command.queue.whole == nullptr) {
        auto event = executor().run(std::move(command), event_wanted, std::forward<Native>(native));
        if (part != nullptr) *part = event;
        return event;
    }
    Joint joint(*command.queue.whole, command.type, command.wait_list, event_wanted);
    const bool has_result = command.result.size > 0;
    const Ref<EventObject> on_lane = joint.run(std::move(command), std::forward<Native>(native));
    if (part != nullptr) *part = on_lane;
    return joint.end(has_result);
}

/// Enqueues a checked command, passes its event to the program and, if the command is blocking,
/// waits for its result. `native` is as in Executor::run(). Throws the Errors of Executor::run()
/// and wait_for_result().
template <typename Native>
void enqueue(Enqueued &&command, cl_event *event, Native &&native) {
    const bool blocking = command.blocking;
    const CallHash call = blocking ? World::get().calls().last() : CallHash{};
    conclude(
        run_whole(std::move(command), event != nullptr || blocking, std::forward<Native>(native)),
        event, blocking, call);
}

}  // namespace cldist::cluster
