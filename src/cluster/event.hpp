#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cluster/context.hpp"
#include "cluster/ending.hpp"
#include "cluster/queue.hpp"
#include "cluster/schedule.hpp"
#include "events/command.hpp"

namespace cldist::cluster {

/// Waits for a native event, whose queue is flushed, and returns its status. Not under the lock.
cl_int wait_for(cl_event event);

/// Of a native event that has ended.
Times times_of(cl_event event);

/// Has a user event end as `ending` does.
void end_alike(Ending &ending, cl_event user_event);

/// A user event that stands for what has no native event in a space.
struct StandIn {
    std::shared_ptr<Ending> ending;
    cldist::Event event;
};

/// An event of the program's. Of a command of this process there is a native one; of what else this process gets to know
/// the end there is an Ending; of some commands of other processes there is neither.
class EventObject final : public Object<EventObject, cl_event, Kind::event> {
public:
    EventObject(ContextObject &context_in, QueueObject *queue_in, cl_command_type type_in)
        : context(&context_in), queue(queue_in), type(type_in) {
        if (is_user()) ++context->open_user_events;
    }
    ~EventObject() {
        if (is_user() && !ending->over()) --context->open_user_events;
    }

    [[nodiscard]] bool is_user() const { return type == CL_COMMAND_USER; }
    /// Whether this process can tell its end: its own command, a user event, or one whose result comes here.
    [[nodiscard]] bool known_here() const { return native || ending != nullptr; }
    /// CL_COMPLETE, a negative code or how far it is, as this process knows; CL_SUBMITTED if it doesn't.
    [[nodiscard]] cl_int status_here() const;
    /// Waits until this process knows of its end. Not under the lock.
    cl_int wait_here() const;
    /// What a command in that space has to wait for. The event is known here. What is to end_alike() once the command is
    /// enqueued is added: PoCL 3.1 never ends what waits for an event that failed before.
    cl_event native_in(Space &in, std::vector<StandIn> &once_enqueued);
    /// Ends as the event does, in this process. The event is known here.
    const std::shared_ptr<Ending> &make_ending();

    const Ref<ContextObject> context;
    const Ref<QueueObject> queue;  ///< null for a user event
    const cl_command_type type;
    const std::thread::id creator = std::this_thread::get_id();

    Event scheduled;         ///< what the schedule knows of the command
    cldist::Event native;    ///< of this process's own command
    Space *space = nullptr;  ///< the native event's
    std::shared_ptr<Ending> ending;
    /// Brings the result of a blocking command here, and on, once it is driven.
    std::unique_ptr<cldist::Command> result;
    /// The status at its end, once all processes know it at the same place of the program.
    std::optional<cl_int> agreed;
    std::shared_ptr<Ending> agreeing;  ///< the same, while a thread waits for that; set once, under the lock

private:
    std::vector<std::pair<Space *, cldist::Event>> stand_ins_;
};

}  // namespace cldist::cluster
