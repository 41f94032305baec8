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

/// Waits for a native event and returns its status. Its queue must be flushed. Not under the lock.
cl_int wait_for(cl_event event);

/// The times of a native event that has ended. `own`: EventObject::own_times.
Times times_of(cl_event event, const std::shared_ptr<const Times> &own);

/// The times of the longer of two sub-ranges of a command; if equally long, of the later one.
Times longer(const Times &a, const Times &b);

/// Sets a native user event to the status of `ending` when that ends.
void end_alike(Ending &ending, cl_event user_event);

/// A native user event that is set to CL_COMPLETE when `ending` ends or fails. Null if it is over.
Event event_of(const std::shared_ptr<Ending> &ending, const Space &space);

/// Sets all user events that the program has not set to CL_TRANSFER_ABANDONED. Takes the lock.
void abandon_user_events();

/// How this process knows the state of an event's command.
enum class Source {
    none,    ///< unknown: a command of another process, whose end nothing here has requested
    native,  ///< from the native event of this process's command
    /// From the native event, and then from an Ending that is set when the result is delivered.
    result,
    /// From an Ending: a user event, a command that failed when it was enqueued here, or a command
    /// whose end another process sends.
    ending,
    /// For a command of the single virtual device: from the events of its parts, and from an Ending
    /// for the end that other processes send.
    parts,
};

class EventObject;

/// A part of a command of the single virtual device.
struct EventPart {
    Ref<EventObject> event;  ///< on a lane
    bool does_work;          ///< the part is more than a marker for its lane's order
    bool may_fail_command;   ///< the command fails if the part fails
};

/// An OpenCL event of the program.
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
    /// Whether this process knows or will know the end without a request: the command runs here, it
    /// is a user event, or its end or result is sent here.
    [[nodiscard]] bool known_here() const { return source != Source::none; }
    /// Makes the event end when `told` and, if there is one, the native event have ended.
    void end_as(std::shared_ptr<Ending> told) {
        ending = std::move(told);
        source = native ? Source::result : Source::ending;
    }
    /// The execution status as far as this process knows it; CL_SUBMITTED if it is unknown.
    [[nodiscard]] cl_int status_here() const;
    /// The status for the program: CL_RUNNING after the command has succeeded, until the promised
    /// results have arrived in this process.
    [[nodiscard]] cl_int visible_status() const;
    /// The times of a command that has ended, as far as this process knows them.
    [[nodiscard]] Times times_here() const;
    /// Waits for the end, which must be known_here(). Returns the status. Not under the lock.
    cl_int wait_here() const;

    /// Whether a user event may still make the command fail. The same in all processes.
    [[nodiscard]] bool may_fail() const { return agreed != CL_COMPLETE && user_events.any(); }

    const Ref<ContextObject> context;
    const Ref<QueueObject> queue;  ///< null for a user event
    const cl_command_type type;
    const std::thread::id creator = std::this_thread::get_id();

    Source source = Source::none;
    ScheduledEvent scheduled;  ///< the schedule's record of the command
    Event native;              ///< the native event of this process's command; otherwise null
    /// Times by the system clock, for a command that natively consists of two internal commands,
    /// for its start and its end. Otherwise null. NVIDIA's driver (580), which uses the same clock,
    /// returns wrong times for such commands, or none.
    std::shared_ptr<const Times> own_times;
    Space *space = nullptr;  ///< of the native event
    /// With Source::native: null until needed (CommandEnds::ending_of()), ends after `native`.
    std::shared_ptr<Ending> ending;
    Promise promise;
    std::shared_ptr<Ending> result_after;  ///< must end before `result` starts; may be null
    /// Receives and forwards the result of a blocking command. The waiting thread drives it.
    std::unique_ptr<Command> result;
    /// The final status, set when all processes know it at the same point of the program.
    std::optional<cl_int> agreed;
    /// The user events that the command waits for, directly or indirectly. For a user event:
    /// itself. The same in all processes.
    OpenUserEvents user_events;
    std::shared_ptr<UserEvent> user_event;  ///< for a user event; otherwise null
    /// The times of the ended command, set when all processes know them.
    std::optional<Times> times;
    /// Ends with the status on which all processes agree. Created, under the lock, by the first
    /// thread that waits for the event.
    std::shared_ptr<Ending> agreeing;
    /// Whether it is a command of the single virtual device, which ends when all its parts end.
    [[nodiscard]] bool is_joint() const { return source == Source::parts; }
    std::vector<EventPart> parts;  ///< those that this process knows
    /// In a central host: the current query is recorded for the event's process, which sends its
    /// answer even if the end becomes known here meanwhile.
    bool asked = false;
    /// Native user events that represent it in spaces where it has no native event.
    std::vector<std::pair<Space *, Event>> stand_ins;

private:
    void keep_user_event();
    void forget_user_event();
};

/// The user events that the queue's next command will wait for. The same in all processes.
OpenUserEvents user_events_before(const QueueObject &queue, Place place,
                                  std::span<EventObject *const> wait_list);
/// Records that this command has been enqueued and waits for `events`. Not for lanes.
void note_user_events(QueueObject &queue, Place place, const OpenUserEvents &events);

}  // namespace cldist::cluster
