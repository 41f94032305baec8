#include "cluster/execution/command_run.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "cluster/execution/executor.hpp"
#include "cluster/execution/host_region.hpp"
#include "cluster/execution/operations.hpp"
#include "ocl/query.hpp"

namespace cldist::cluster {
namespace {

// Returns `set`, or null if the wait list contains that user event. If a command waited for it
// through two native events and one failed, later commands might fail, too
// (Quirks::loses_commands_behind_failures).
std::shared_ptr<Ending> beside_wait_list(const std::shared_ptr<Ending> &set,
                                         std::span<EventObject *const> wait_list) {
    const bool is_there = std::ranges::any_of(
        wait_list, [&](const EventObject *event) { return event->ending() == set; });
    return is_there ? nullptr : set;
}

}  // namespace

CommandRun::CommandRun(Executor &executor, Enqueued &command)
    : executor_(executor), command_(command), waits_(executor.ends()) {}

void CommandRun::prepare() {
    QueueObject &queue = command_.queue;
    queue.used.store(true, std::memory_order_relaxed);
    if (command_.type == CL_COMMAND_BARRIER && !queue.in_order()) queue.has_barrier = true;
    fails_ = std::ranges::any_of(command_.wait_list, [](const EventObject *event) {
        return event->known_here() && event->status_here() < 0;
    });
    if (!executor_.decides_nothing(*queue.context)) {
        decide();
        if (executor_.supply().is_used() && command_.source)
            supply_ = executor_.supply().bring(command_, before(), fails_, native_, waits_);
    }
    executor_.count(queue, native_);
    if (!native_) return;
    Space &space = *queue.space;
    for (EventObject *const event : command_.wait_list)
        if (event->agreed != CL_COMPLETE) waits_.add(*event, space);
    waits_.add(command_.behind, space);
    wait_for_promises();
    executor_.supply().start(supply_, queue, waits_, fails_);
    if (decisions_ != nullptr && !fails_ && !waits_.events().empty() &&
        queue.context->is_careful() && space.quirks.loses_commands_behind_failures)
        waits_.merge(command_, executor_.steps(), user_events_.any());
}

void CommandRun::wait_for_promises() {
    ProgramMemory &memory = executor_.memory();
    Space &space = *command_.queue.space;
    const bool reads_result = command_.result.size > 0;
    const bool is_on_lane = command_.queue.whole != nullptr;
    // An earlier result must not overwrite this command's result in the same memory. The lanes of
    // a read fill different memory, so they don't wait for each other.
    const bool uses_host_memory = command_.reads_host_memory ||
                                  (memory.copies_possible() && reads_result && !is_on_lane) ||
                                  memory.is_used(command_.result.memory());
    if (uses_host_memory && executor_.promises(*command_.queue.context)) {
        command_.incoming = is_on_lane && reads_result ? before().landed : before().incoming;
        if (command_.staging == nullptr) waits_.add(command_.incoming, space);
    }
    // Commands of another process that this command waits for may have ended, because the program
    // there has already set its user events. Nevertheless, this command must not use the program's
    // memory before the program here has set them. If one of them fails, this command need not.
    if ((command_.reads_host_memory || reads_result) && executor_.mode().others_may_be_ahead())
        waits_.add(regardless_of_failure(beside_wait_list(before().set, command_.wait_list)),
                   space);
}

const Promise &CommandRun::before() {
    if (!before_) {
        std::vector<Promise> promised{{command_.behind, {}, {}}};
        for (const EventObject *const event : command_.program_wait_list())
            if (is_open(event->promise)) promised.push_back(event->promise);
        before_ = promised_before(command_.queue.promised(), command_.ordering(),
                                  std::span<const Promise>(promised), join_promises);
    }
    return *before_;
}

// Returns the promise of the command's end. `own` is its result.
Promise CommandRun::promise(const Promise &own) {
    QueuePromises<Promise> &queue = command_.queue.promised();
    if (adds_nothing() && is_nothing(own) && is_nothing(queue.all) && is_nothing(queue.before))
        return {};
    Promise promised = join_promises(before(), own);
    note_promise(queue, command_.ordering(), promised, join_promises);
    return promised;
}

bool CommandRun::adds_nothing() const {
    const auto waits = command_.program_wait_list();
    return command_.behind == nullptr && command_.type != CL_COMMAND_BARRIER &&
           std::ranges::none_of(waits,
                                [](const EventObject *event) { return is_open(event->promise); });
}

bool CommandRun::uses_host_memory_on_lane() const {
    return command_.queue.whole != nullptr && !command_.blocking &&
           (command_.reads_host_memory || command_.result.size > 0) &&
           executor_.promises(*command_.queue.context);
}

bool CommandRun::may_leave_lock() const {
    return decisions_ == nullptr && command_.queue.whole == nullptr &&
           !executor_.mode().orders_calls();
}

bool CommandRun::needs_event(bool event_wanted) const {
    const bool copied = command_.staging != nullptr || command_.in_blocks ||
                        command_.brought != nullptr || command_.kept != nullptr ||
                        executor_.memory().is_followed(command_) ||
                        executor_.memory().is_filled(command_) || uses_host_memory_on_lane();
    return event_wanted || copied ||
           (decisions_ != nullptr &&
            (!command_.queue.in_order() || !decisions_->result.to.empty() ||
             command_.queue.context->is_careful()));
}

void CommandRun::decide() {
    const Enqueued &command = command_;
    Schedule &schedule = executor_.schedule();
    CommandEnds &ends = executor_.ends();
    if (!executor_.alone()) executor_.objects().note_host_memory(command);
    executor_.forget_ended();
    std::vector<ScheduledEvent *> scheduled;
    for (EventObject *const event : command.wait_list)
        if (!event->is_user() && event->agreed != CL_COMPLETE)
            scheduled.push_back(&event->scheduled);
    const Ordering ordering = command.ordering();
    user_events_ = user_events_before(command.queue, ordering, command.program_wait_list());
    const bool fails_with_others = user_events_.any();
    if (command.queue.whole == nullptr) note_user_events(command.queue, ordering, user_events_);
    // If the command fails, the old bytes must remain, so its device needs them. This does not
    // apply to mapped memory, whose bytes the program has already replaced.
    const bool keeps_what_it_overwrites =
        fails_with_others && command.type != CL_COMMAND_UNMAP_MEM_OBJECT;
    const ScheduledCommand wanted{
        .memory = command.queue.device->memory,
        .queue = command.queue.id,
        .accesses = command.accesses,
        .wait_list = scheduled,
        .result_to_hosts = command.result.size > 0,
        .may_fail = keeps_what_it_overwrites,
        .behind = user_events_.name(),
    };
    decisions_ = &(command.is_part ? schedule.decide_part(wanted) : schedule.decide(wanted));
    native_ = decisions_->local;
    for (const BufferId id : decisions_->homes_changed) executor_.objects().note_home(id);

    const auto event_of = [&](CommandId id) -> EventObject & {
        return **std::ranges::find_if(
            command.wait_list, [id](const EventObject *e) { return e->scheduled.command == id; });
    };
    for (const Completion &completion : decisions_->completions_sent)
        ends.send(event_of(completion.command), completion.message);
    for (const Completion &completion : decisions_->completions_awaited)
        event_of(completion.command).end_as(ends.receive(completion.message));
    for (const Transfer &transfer : decisions_->transfers) executor_.transfers().start(transfer);
    if (!native_) return;
    if (command.in_blocks && !decisions_->result.to.empty())
        command_.result.forward =
            executor_.transport().forward(decisions_->result, command.result.size);
    if (command.queue.in_order() && command.queue.context->is_careful())
        executor_.steps().add_waits_in(command.queue, *command.queue.space, waits_.events());
    executor_.steps().add_waits(decisions_->after, *command.queue.space, waits_.events());
    // Afterwards, because the command does not wait for transfers that have failed before.
    look_for_missing_bytes(keeps_what_it_overwrites);
}

// The command fails if its device lacks bytes that it reads, or must keep if it fails.
void CommandRun::look_for_missing_bytes(bool keeps_what_it_overwrites) {
    const MemoryId memory = command_.queue.device->memory;
    const MemObject *last = nullptr;
    for (const Access &access : command_.accesses) {
        MemObject &object = executor_.objects()[access.buffer];
        if (std::exchange(last, &object) != &object) object.arrivals.update();
        if ((access.mode != AccessMode::write || keeps_what_it_overwrites) &&
            object.arrivals.lacks(memory, {access.begin, access.end}))
            fails_ = true;
    }
    for (const Access &access : command_.accesses)
        if (access.mode == AccessMode::write && !fails_)
            executor_.objects()[access.buffer].arrivals.overwrite(memory,
                                                                  {access.begin, access.end});
}

Ref<EventObject> CommandRun::finish(bool event_wanted) {
    QueueObject &queue = command_.queue;
    const bool passes_result =
        lands() || (decisions_ != nullptr &&
                    (decisions_->result.from.has_value() || !decisions_->result.to.empty()));
    cl_int failure = CL_SUCCESS;
    if (native_) {
        if (code_ != CL_SUCCESS && executor_.alone() && decisions_ != nullptr) keep_place();
        settle_waits();
        failure = find_failure();
        if (failure != CL_SUCCESS) queue.context->failed = true;
        if (native_event_ && command_.kept != nullptr)
            keep_until(native_event_.get(), command_.kept);
        if (native_event_ && command_.brought != nullptr)
            executor_.memory().keep_until_end(command_, native_event_.get());
        if (decisions_ != nullptr) keep_step(failure != CL_SUCCESS);
    }
    if (decisions_ != nullptr)
        for (const Transfer &transfer : decisions_->write_backs)
            executor_.transfers().start(transfer);
    Promise own = results_here(failure != CL_SUCCESS);
    if (!event_wanted && !passes_result) {
        if (executor_.promises(*queue.context) && !(adds_nothing() && is_nothing(own)))
            promise(own);
        return {};
    }

    std::optional<NativeCommand> native;
    if (native_event_)
        native = {std::move(native_event_), queue.space, std::move(command_.own_times)};
    EventObject::State state;
    if (passes_result)
        state = DeliveredState{std::move(native), std::make_shared<Ending>(), {}, {}};
    else if (native)
        state = NativeState{std::move(*native), {}};
    else if (failure != CL_SUCCESS)
        state = ReportedState{ended(failure)};
    auto *const event = new EventObject(queue, command_.type, std::move(state));
    Ref<EventObject> held(event);
    event->release();  // give() will add the program's reference
    if (decisions_ != nullptr) event->scheduled = decisions_->event;
    event->user_events = std::move(user_events_);
    if (passes_result) {
        const bool arrives = lands() || decisions_->result.from;
        own.landed = pass_result(*event, failure);
        if (arrives) own.incoming = own.landed;
    }
    if (executor_.promises(*queue.context)) event->promise = promise(own);
    return held;
}

// The driver has rejected the command, and finish() throws. Later commands may wait for this one
// instead of the steps that it waits for, so a marker takes its place.
void CommandRun::keep_place() {
    const WaitArguments list(waits_.events());
    const auto held = command_.queue.context->is_careful() ? lock_failures() : FailureLock();
    const Waits waits{list.count, list.events, native_event_.out()};
    if (enqueue_marker_behind(command_.queue, waits) == CL_SUCCESS) keep_step(false);
}

// The native command is enqueued, so the user events that it waits for may end now.
void CommandRun::settle_waits() {
    std::function<void(cl_int)> keep;
    // The command may wait for more than its wait list (Quirks::markers_wait_for_all). Its event is
    // kept even if an awaited event fails.
    if (native_event_ && command_.queue.context->is_careful() &&
        command_.queue.space->quirks.uses_ended_events)
        keep = [&progress_thread = executor_.transport().progress_thread(),
                kept = std::make_shared<const Event>(Event::share(native_event_.get()))](
                   cl_int status) {
            if (status >= 0) return;
            std::vector<Event> remains;
            remains.push_back(Event::share(kept->get()));
            progress_thread.remains().keep(nullptr, std::move(remains));
        };
    waits_.settle(keep);
}

// Returns CL_SUCCESS if the command has not failed.
cl_int CommandRun::find_failure() {
    // Other drivers fail the command themselves, perhaps when its whole wait list has ended.
    if (!fails_ && command_.queue.space->quirks.loses_commands_behind_failures &&
        first_failure(waits_.events()) < 0) {
        fails_ = true;
        std::vector<Event> remains;
        remains.push_back(std::move(native_event_));
        executor_.transport().progress_thread().remains().keep(nullptr, std::move(remains));
    }
    if (!fails_ && code_ == CL_SUCCESS) return CL_SUCCESS;
    if (!fails_) {
        if (executor_.alone()) throw Error(code_, "the device's driver rejected the command");
        log_error("a command fails with {}: the device's driver rejected it", code_text(code_));
    }
    return fails_ ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : code_;
}

// Returns the command's own promises, except the promise of a result that pass_result() delivers.
Promise CommandRun::results_here(bool failed) {
    Promise own{supply_.sent, {}, {}};
    if (!native_ || failed) return own;
    // Copies of later commands may bypass the queue, so they need an ending to wait for.
    if (executor_.memory().is_followed(command_)) {
        own.incoming = std::make_shared<Ending>();
        executor_.ends().end_with(native_event_.get(), own.incoming);
    } else if (executor_.memory().is_filled(command_)) {
        executor_.memory().note_filled(command_, native_event_.get());
    }
    if (!lands() && uses_host_memory_on_lane()) {
        own.landed = std::make_shared<Ending>();
        if (!command_.reads_host_memory) own.incoming = own.landed;
        executor_.memory().note_use(command_, own.landed);
        executor_.ends().end_with(native_event_.get(), own.landed);
    }
    return own;
}

void CommandRun::keep_step(bool failed) {
    Steps &steps = executor_.steps();
    const Step step{decisions_->event.command, 0};
    QueueObject &queue = command_.queue;
    const bool careful = queue.context->is_careful();
    Steps::Order order{{}, 0, careful && !failed};
    // With a single step to wait for, the native command cannot fail before that step has ended.
    if (careful || decisions_->after.size() > 1) order.after = decisions_->after;
    if (queue.in_order()) order.previous = steps.set_last(queue, step.command);
    if (failed)
        steps.add_failed(step, *queue.space, std::move(order));
    else if (native_event_)
        steps.add(step, *queue.space, Event::share(native_event_.get()), std::move(order));
    else
        steps.add(step, queue, std::move(order));
}

// Sends a result to all processes that run the program. The returned ending ends when the bytes are
// in this process's memory and have been forwarded. `failure` is that of find_failure().
std::shared_ptr<Ending> CommandRun::pass_result(EventObject &event, cl_int failure) {
    auto &delivered = std::get<DeliveredState>(event.state);
    const std::shared_ptr<Ending> ending = event.ending();
    const cl_event native = delivered.native ? delivered.native->event.get() : nullptr;
    Enqueued &command = command_;
    Transport &transport = executor_.transport();
    CommandEnds &ends = executor_.ends();
    const Relay relay = decisions_ != nullptr ? decisions_->result : Relay{};
    const bool by_caller = command.blocking && failure == CL_SUCCESS &&
                           executor_.mode().has_program() && command.result.forward == nullptr;
    // An earlier result for the same memory may not have arrived yet. It must arrive first. A lane
    // may not have read the memory yet.
    const bool overlaps = (lands() || relay.from) && executor_.memory().note_use(command, ending);
    // The result must not arrive before this process's program has set the earlier user events.
    // Other processes may have set theirs already.
    const std::shared_ptr<Ending> after =
        both(overlaps ? before().landed : nullptr,
             relay.from ? regardless_of_failure(before().set) : nullptr);
    if (native_ && command.staging != nullptr) {
        std::byte *const target = std::exchange(command.result.data, command.staging.get());
        command.result.arrived = [target, size = command.result.size,
                                  memory = std::move(command.staging)] {
            copy_with_threads(target, memory.get(), size);
        };
    }
    auto operation = transport.relay(std::move(command.result), relay, ending,
                                     times_of_command(event), by_caller);
    // A command that failed has no native event.
    const auto submit = [&ends, failure](std::unique_ptr<Operation> relaying, cl_event start) {
        if (start != nullptr)
            ends.submit(std::move(relaying), start);
        else
            ends.submit_now(std::move(relaying), failure);
    };
    if (by_caller) {
        delivered.by_caller = command_of(std::move(operation));
        delivered.caller_after = after;
    } else if (after != nullptr) {
        using Held = std::pair<std::unique_ptr<Operation>, Event>;
        after->then(
            [submit, held = std::make_shared<Held>(std::move(operation), Event::share(native))](
                cl_int) { submit(std::move(held->first), held->second.get()); });
    } else {
        submit(std::move(operation), native);
    }
    return ending;
}

}  // namespace cldist::cluster
