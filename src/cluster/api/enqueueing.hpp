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

/// Writes the program's event.
inline void give(const Ref<EventObject> &object, cl_event *event) {
    if (event == nullptr) return;
    object->set_number(World::get().next_number());
    object->retain();
    *event = object->handle();
}

/// Waits until this process knows of the command's end, outside of the lock. Throws an Error if it
/// failed.
void wait_for_result(EventObject &event, const CallHash &call);

/// The end of a map's entry point. `part` is the event of the device that maps, `map` the event of
/// the command. Gives the program its event and, if the call is blocking, waits for the contents.
/// Returns their address. Throws an Error if the map failed.
void *keep_mapping(MemObject &object, Mapped mapped, const Ref<EventObject> &map,
                   const Ref<EventObject> &part, cl_event *event, bool blocking,
                   const CallHash &call);

inline Executor &executor() { return World::get().executor(); }

/// For a command that reads into or writes from `memory`: a mapping of that memory lives until the
/// command has ended.
inline Enqueued with_host_memory(const void *memory, Enqueued &&command) {
    if (auto kept = mapped_memory().keeper_of(memory))
        command.kept = command.result.kept = std::move(kept);
    return std::move(command);
}

/// Leaves a checked command out: gives the program its event. Takes the lock.
inline void leave_out(QueueObject &queue, cl_command_type type, cl_event *event) {
    if (!queue.used.load(std::memory_order_relaxed))
        queue.used.store(true, std::memory_order_relaxed);
    if (event == nullptr) return;
    const Locked lock;
    EventObject *const object = executor().event_of_left_out(queue, type);
    object->set_number(World::get().next_number());
    *event = object->handle();
}

/// Gives the program its event and, if the command is blocking, waits for its result, as
/// wait_for_result().
inline void conclude(const Ref<EventObject> &enqueued, cl_event *event, bool blocking,
                     const CallHash &call) {
    give(enqueued, event);
    if (blocking) wait_for_result(*enqueued, call);
}

/// Enqueues a checked command. If its queue is a lane, `part` gets the lane's event. Returns the
/// command's event, null if nobody wants it. `native` as in Executor::run(). Throws the same
/// Errors.
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

/// Enqueues a checked command, gives the program its event and, if the command is blocking, waits
/// for its result. `native` as in Executor::run(). Throws the Errors of Executor::run() and
/// wait_for_result().
template <typename Native>
void enqueue(Enqueued &&command, cl_event *event, Native &&native) {
    const bool blocking = command.blocking;
    const CallHash call = blocking ? World::get().calls().last() : CallHash{};
    conclude(
        run_whole(std::move(command), event != nullptr || blocking, std::forward<Native>(native)),
        event, blocking, call);
}

}  // namespace cldist::cluster
