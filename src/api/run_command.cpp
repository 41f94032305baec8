#include "api/run_command.hpp"

#include <utility>

#include "api/event_table.hpp"
#include "api/starting.hpp"
#include "ocl/query.hpp"

namespace cldist {

void start_when_ready(const CheckedCall &call, Operations operations,
                      std::unique_ptr<Bridge> bridge) {
    Event event = Event::share(bridge->user_visible_event());
    if (call.arguments.event != nullptr) event_table().add(event.get(), operations);
    call.progress_thread().start_when_ready(
        std::make_unique<Command>(std::move(operations), std::move(bridge), call.queue.device),
        {ordered_by(call.queue, call.arguments), call.arguments.num_events != 0,
         !call.resources->is_cpu()});
    if (call.arguments.event != nullptr) *call.arguments.event = event.give();
}

namespace {

void enqueue(CheckedCall &call) {
    const std::span<Mapping> mappings = call.make_mappings(Drives::progress_thread);
    const Enqueueing lock(call.queue);
    auto bridge = std::make_unique<Bridge>(call.queue, call.arguments.events(), mappings);
    start_when_ready(call, call.make_operations(Drives::progress_thread), std::move(bridge));
}

// Lets the progress thread send the error message that the far end waits for.
Status leave_failure(const CheckedCall &call, std::unique_ptr<Bridge> bridge) {
    const Status failure = failed_wait();
    call.progress_thread().start_failed(
        std::make_unique<Command>(call.make_operations(Drives::progress_thread), std::move(bridge),
                                  call.queue.device),
        ordered_by(call.queue, call.arguments), failure);
    return failure;
}

Status drive_here(const CheckedCall &call, Operations operations, std::unique_ptr<Bridge> bridge,
                  bool ready) {
    Command command(std::move(operations), std::move(bridge), call.queue.device);
    call.drive_here(command, ready ? Status{} : failed_wait());
    if (auto failed = command.take_failed_bridge())
        call.progress_thread().remains().keep(std::move(failed), {});
    return command.status();
}

// Waits until the commands before `call` have started. On an in-order queue they normally have when
// `call` may start. But a command behind a failed one may not wait for those before it.
void await_turn(const CheckedCall &call, CommandId call_id) {
    if (cl_command_queue const queue = ordered_by(call.queue, call.arguments); queue != nullptr)
        call.progress_thread().wait_started(queue, call_id);
}

Status run_without_event(CheckedCall &call) {
    const std::span<Mapping> mappings = call.make_mappings(Drives::caller_in_queue);
    const CommandId id = call.progress_thread().next_id();
    const bool gated = call.needs_gate(!mappings.empty());
    const bool waits = gated || !mappings.empty();
    const bool finishes =
        !gated && waits && call.queue.in_order && find_persistent(call.queue, mappings);
    Start start;
    if (waits && !finishes) start = enqueue_start(call.queue, call.arguments.events(), mappings);
    // Behind a gate, another thread may have enqueued a command that waits for this one. Copies in
    // the queue would wait for that command.
    Operations operations = call.make_operations(gated ? Drives::caller : Drives::caller_in_queue);
    const bool ready =
        !waits || (finishes ? finish_named(call.queue.queue, records_of(operations)) == CL_SUCCESS
                            : wait_for_start(start, records_of(operations)));
    if (!ready) call.progress_thread().remains().keep(nullptr, std::move(start.events));
    if (!ready && call.leaves_failures()) return leave_failure(call, nullptr);
    if (waits) await_turn(call, id);
    Status status = drive_here(call, std::move(operations), nullptr, ready);
    end_mappings(call.queue, mappings, call.writes());
    return status;
}

Status run_with_event(CheckedCall &call) {
    const std::span<Mapping> mappings = call.make_mappings(Drives::caller);
    Enqueueing lock(call.queue);
    auto bridge = std::make_unique<Bridge>(call.queue, call.arguments.events(), mappings);
    Event event = Event::share(bridge->user_visible_event());
    Operations operations = call.make_operations(Drives::caller);
    const CommandId id = call.progress_thread().next_id();
    lock.unlock();
    const bool ready = wait_for_start(bridge->start(), records_of(operations));
    if (!ready && call.leaves_failures()) return leave_failure(call, std::move(bridge));
    await_turn(call, id);
    event_table().add(event.get(), operations);
    Status status = drive_here(call, std::move(operations), std::move(bridge), ready);
    wait_for(event.get());
    *call.arguments.event = event.give();
    return status;
}

}  // namespace

Status run_command(CheckedCall &call) {
    if (call.arguments.blocking == CL_FALSE) {
        enqueue(call);
        return {};
    }
    if (call.leaves_failures() && first_failure(call.arguments.events()) < 0)
        return leave_failure(call, nullptr);
    if (!call.queue.in_order) await_turn(call, call.progress_thread().next_id());
    return call.arguments.event == nullptr ? run_without_event(call) : run_with_event(call);
}

}  // namespace cldist
