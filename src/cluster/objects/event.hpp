#pragma once

#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/objects/context.hpp"
#include "cluster/objects/ending.hpp"
#include "cluster/objects/queue.hpp"
#include "cluster/schedule/schedule.hpp"
#include "events/command.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {

/// Waits for a native event and returns its status. Its queue must be flushed. Not under the lock.
cl_int wait_for(cl_event event);

/// The times of a native event that has ended. `own`: NativeCommand::own_times.
Times times_of(cl_event event, const std::shared_ptr<const Times> &own);

/// The times of the longer of two sub-ranges of a command; if equally long, of the later one.
Times longer(const Times &a, const Times &b);

/// Sets a native user event to the status of `ending` when that ends.
void end_alike(Ending &ending, cl_event user_event);

/// A native user event that is set to CL_COMPLETE when `ending` ends or fails. Null if it is over.
Event event_of(const std::shared_ptr<Ending> &ending, const Space &space);

/// Sets all user events that the program has not set to CL_TRANSFER_ABANDONED. Takes the lock.
void abandon_user_events();

/// The native command of an event, in this process.
struct NativeCommand {
    Event event;
    Space *space;  ///< of the event
    /// Times by the system clock, for a command that natively consists of two internal commands,
    /// for its start and its end. Otherwise null. Native times of such commands may be wrong.
    std::shared_ptr<const Times> own_times;

    [[nodiscard]] cl_int status() const { return execution_status(event.get()); }
    [[nodiscard]] Times times() const { return times_of(event.get(), own_times); }
};

// The kinds of events. status() and times() are as far as this process knows them. wait_here()
// waits for `ending` or, if that is null, for the native event or the parts.

/// A command without a native event here: it runs in another process, or it failed when it was
/// enqueued here.
struct ReportedState {
    LateEnding ending;  ///< null if unknown: nothing here has requested the end

    [[nodiscard]] cl_int status() const {
        return ending.get() ? ending.get()->status() : CL_SUBMITTED;
    }
    [[nodiscard]] Times times() const { return ending.get() ? ending.get()->times() : Times{}; }
};

/// A user event. Its ending is never null.
struct UserState : ReportedState {
    std::shared_ptr<UserEvent> user_event;
};

/// A command that runs here, and whose result, if any, the native command delivers.
struct NativeState : NativeCommand {
    LateEnding ending;  ///< ends after `event`; null before CommandEnds::ending_of()
};

/// A command whose result this process receives or sends.
struct DeliveredState {
    std::optional<NativeCommand> native;  ///< if the command runs here and was enqueued
    LateEnding ending;  ///< never null; ends when the result has been received and sent
    /// Does that for a blocking command. The waiting thread drives it. Null if there is none.
    std::unique_ptr<Command> by_caller;
    std::shared_ptr<Ending> caller_after;  ///< must end before `by_caller` starts; may be null

    [[nodiscard]] cl_int status() const {
        if (ending.get()->over() || !native) return ending.get()->status();
        const cl_int status = native->status();
        return status == CL_COMPLETE ? CL_RUNNING : status;
    }
    [[nodiscard]] Times times() const {
        const Times &times = ending.get()->times();
        return times.back() != 0 || !native ? times : native->times();
    }
};

class EventObject;

/// A part of a command of the single virtual device.
struct EventPart {
    Ref<EventObject> event;  ///< on a lane
    bool does_work;          ///< the part is more than a marker for its lane's order
    bool may_fail_command;   ///< the command fails if the part fails
};

/// A command of the single virtual device, which ends when all its parts end.
struct JointState {
    std::vector<EventPart> parts;  ///< those that this process knows
    LateEnding ending;             ///< for the end that other processes send; null if unused

    [[nodiscard]] cl_int status() const;
    [[nodiscard]] Times times() const;
};

/// An OpenCL event of the program.
class EventObject final : public Object<EventObject, cl_event, Kind::event> {
public:
    using State = std::variant<ReportedState, UserState, NativeState, DeliveredState, JointState>;

    /// A user event.
    explicit EventObject(ContextObject &context_in);
    EventObject(QueueObject &queue_in, cl_command_type type_in, State state_in = {})
        : context(queue_in.context), queue(&queue_in), type(type_in), state(std::move(state_in)) {}
    ~EventObject();

    [[nodiscard]] bool is_user() const { return std::holds_alternative<UserState>(state); }
    [[nodiscard]] bool is_joint() const { return std::holds_alternative<JointState>(state); }
    /// Whether this process knows or will know the end without a request: the command runs here, it
    /// is a user event, or its end or result is sent here.
    [[nodiscard]] bool known_here() const {
        const auto *const reported = std::get_if<ReportedState>(&state);
        return reported == nullptr || reported->ending.get() != nullptr;
    }
    /// If the end is not known_here(), makes the event end with `told`.
    void end_as(std::shared_ptr<Ending> told) {
        if (!known_here()) std::get<ReportedState>(state).ending = std::move(told);
    }
    /// Null if this process has no native event of the command.
    [[nodiscard]] const NativeCommand *native() const;
    /// What sets the end in this process. May be null, see the kinds. Any thread.
    [[nodiscard]] const std::shared_ptr<Ending> &ending() const {
        return std::visit(
            [](auto &kind) -> auto & { return kind.ending.get(); }, state);
    }
    /// The parts of a command of the single virtual device. Empty for other events.
    [[nodiscard]] std::span<const EventPart> parts() const {
        const auto *const joint = std::get_if<JointState>(&state);
        return joint != nullptr ? std::span(joint->parts) : std::span<const EventPart>();
    }
    /// The execution status as far as this process knows it; CL_SUBMITTED if it is unknown.
    [[nodiscard]] cl_int status_here() const {
        return agreed ? *agreed : std::visit([](auto &kind) { return kind.status(); }, state);
    }
    /// The status for the program: CL_RUNNING after the command has succeeded, until the promised
    /// results have arrived in this process.
    [[nodiscard]] cl_int visible_status() const {
        const cl_int status = status_here();
        return status == CL_COMPLETE && is_open(promise.landed) ? CL_RUNNING : status;
    }
    /// The times of a command that has ended, as far as this process knows them.
    [[nodiscard]] Times times_here() const {
        return std::visit([](auto &kind) { return kind.times(); }, state);
    }
    /// Waits for the end, which must be known_here(). Returns the status. Not under the lock.
    cl_int wait_here() const;

    /// Whether a user event may still make the command fail. The same in all processes.
    [[nodiscard]] bool may_fail() const { return agreed != CL_COMPLETE && user_events.any(); }

    const Ref<ContextObject> context;
    const Ref<QueueObject> queue;  ///< null for a user event
    const cl_command_type type;
    const std::thread::id creator = std::this_thread::get_id();

    State state;               ///< its kind never changes
    ScheduledEvent scheduled;  ///< the schedule's record of the command
    Promise promise;
    /// The final status, set when all processes know it at the same point of the program.
    std::optional<cl_int> agreed;
    /// The user events that the command waits for, directly or indirectly. For a user event:
    /// itself. The same in all processes.
    OpenUserEvents user_events;
    /// The times of the ended command, set when all processes know them.
    std::optional<Times> times;
    /// Ends with the status on which all processes agree. Created, under the lock, by the first
    /// thread that waits for the event.
    std::shared_ptr<Ending> agreeing;
    /// In a central host: the current query is recorded for the event's process, which sends its
    /// answer even if the end becomes known here meanwhile.
    bool asked = false;
    /// Native user events that represent it in spaces where it has no native event.
    std::vector<std::pair<Space *, Event>> proxies;
};

/// The user events that the queue's next command will wait for. The same in all processes.
OpenUserEvents user_events_before(const QueueObject &queue, Ordering ordering,
                                  std::span<EventObject *const> wait_list);
/// Records that this command has been enqueued and waits for `events`. Not for lanes.
void note_user_events(QueueObject &queue, Ordering ordering, const OpenUserEvents &events);

}  // namespace cldist::cluster
