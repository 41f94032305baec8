#pragma once

#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/queue.hpp"
#include "cluster/schedule/schedule.hpp"
#include "events/command.hpp"

namespace cldist::cluster {

/// Waits for a native event, whose queue is flushed, and returns its status. Not under the lock.
cl_int wait_for(cl_event event);

/// The times of a native event that has ended. `own` as in EventObject.
Times times_of(cl_event event, const std::shared_ptr<const Times> &own);

/// The times of the longer of two sub-ranges of a command. If both took equally long, those of the
/// later sub-range.
Times longer(const Times &a, const Times &b);

/// Has a user event end as `ending` does.
void end_alike(Ending &ending, cl_event user_event);

/// A user event of the space that succeeds when `ending` has ended in any way. None if it has ended
/// already.
Event event_of(const std::shared_ptr<Ending> &ending, const Space &space);

/// Fails all user events that the program has not set. Takes the lock.
void abandon_user_events();

/// From what a process knows the state of an event's command.
enum class Source {
    none,    ///< nothing: another process's command, whose end nobody here has asked for
    native,  ///< the native event of its own command
    result,  ///< the native event until the command has ended, and then the Ending that is set once
             ///< its result has been passed on
    /// An Ending, for a user event, a command that failed here, or a command whose end other
    /// processes send.
    ending,
    /// The events of the parts of an aggregate queue's command, and an Ending that other processes
    /// send.
    parts,
};

/// An event of the program's.
class EventObject final : public Object<EventObject, cl_event, Kind::event> {
public:
    EventObject(ContextObject &context_in, QueueObject *queue_in, cl_command_type type_in)
        : context(&context_in), queue(queue_in), type(type_in) {
        if (!is_user()) return;
        keep_user_event();
        user_events.add(user_event);
    }
    ~EventObject() {
        if (is_user()) forget_user_event();
    }

    [[nodiscard]] bool is_user() const { return type == CL_COMMAND_USER; }
    /// Whether this process knows its end: its command runs here, it is a user event, or its result
    /// is sent here.
    [[nodiscard]] bool known_here() const { return source != Source::none; }
    /// It ends as `told` does, its own command once that has ended, too.
    void end_as(std::shared_ptr<Ending> told) {
        ending = std::move(told);
        source = native ? Source::result : Source::ending;
    }
    /// CL_COMPLETE, a negative code or how far the command is, as this process knows; CL_SUBMITTED
    /// if it doesn't.
    [[nodiscard]] cl_int status_here() const;
    /// The same for the program: a command that has ended well is still running until what it
    /// promises is here.
    [[nodiscard]] cl_int visible_status() const;
    /// The times of a command that has ended, as this process knows them.
    [[nodiscard]] Times times_here() const;
    /// Waits until this process knows of its end. Not under the lock.
    cl_int wait_here() const;

    /// Whether it may still end with what the program gives a user event; alike in all processes.
    [[nodiscard]] bool may_fail() const { return agreed != CL_COMPLETE && user_events.any(); }

    const Ref<ContextObject> context;
    const Ref<QueueObject> queue;  ///< null for a user event
    const cl_command_type type;
    const std::thread::id creator = std::this_thread::get_id();

    Source source = Source::none;
    ScheduledEvent scheduled;  ///< what the schedule knows of the command
    Event native;              ///< of this process's own command; else null
    /// Times by the system's clock, for a command that natively consists of an internal command for
    /// its start and one for its end. Otherwise null. NVIDIA's driver (580), which uses the same
    /// clock, returns wrong times for such commands, or none.
    std::shared_ptr<const Times> own_times;
    Space *space = nullptr;  ///< the native event's
    /// Null if nobody has asked for it; of Source::native it is set behind the native event.
    std::shared_ptr<Ending> ending;
    Promise promise;
    std::shared_ptr<Ending> result_after;  ///< when `result` may be started; null for now
    /// Brings the result of a blocking command here, and on, once it is driven.
    std::unique_ptr<Command> result;
    /// The status at its end, once all processes know it at the same place of the program.
    std::optional<cl_int> agreed;
    /// Those that it waits for, perhaps through others, alike in all processes: a user event is
    /// itself one.
    OpenUserEvents user_events;
    std::shared_ptr<UserEvent> user_event;  ///< of one; else null
    /// Of a command that has ended, once all processes know them.
    std::optional<Times> times;
    /// The same, while a thread waits for that; set once, under the lock.
    std::shared_ptr<Ending> agreeing;
    /// Whether it is of an aggregate queue: it ends when its parts have, of all processes.
    [[nodiscard]] bool is_joint() const { return source == Source::parts; }
    /// Its parts that this process knows of, each with its lane.
    std::vector<std::pair<QueueObject *, Ref<EventObject>>> parts;
    /// Whether a part does work, instead of only keeping the order of its lane.
    [[nodiscard]] bool is_work(const EventObject &part) const {
        return part.type != CL_COMMAND_MARKER || type == CL_COMMAND_MARKER ||
               type == CL_COMMAND_MIGRATE_MEM_OBJECTS;
    }
    /// All processes know of its parts' ends by their results, and of no others.
    bool told_by_result = false;
    /// Whether it fails if that part does.
    [[nodiscard]] bool fails_with(const EventObject &part) const {
        return !told_by_result || is_work(part);
    }
    /// Represent it in spaces where it has no native event.
    std::vector<std::pair<Space *, Event>> stand_ins;

private:
    void keep_user_event();
    void forget_user_event();
};

/// The user events that the next command of a queue waits for. Alike in all processes.
OpenUserEvents user_events_before(const QueueObject &queue, Place place,
                                  std::span<EventObject *const> wait_list);
/// That command has been enqueued, behind `events`. Not of a lane.
void note_user_events(QueueObject &queue, Place place, const OpenUserEvents &events);

}  // namespace cldist::cluster
