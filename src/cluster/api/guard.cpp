#include "cluster/api/guard.hpp"

#include <new>
#include <thread>
#include <vector>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "cluster/api/host_mode.hpp"
#include "events/failure.hpp"

namespace cldist::cluster {
namespace {

/// Whether all processes must make this call, with a replicated host.
bool is_compared(const CallArguments &arguments) {
    if (arguments.call.comparison == Comparison::outside_callbacks) return !in_callback();
    if (arguments.call.comparison != Comparison::by_creator) return true;
    const EventObject *const event = EventObject::from(arguments.as<cl_event>(0));
    return event == nullptr || event->creator == std::this_thread::get_id();
}

/// In a central host: whether only another process knows the state of an event's command.
bool must_ask(const EventObject &event) {
    const bool is_over = event.known_here() && event.status_here() <= CL_COMPLETE;
    return !event.is_user() && owner_of(event) != 0 && !is_over;
}

/// In a central host: whether the call concerns other processes. Waits and queries that this
/// process can answer alone do not.
bool concerns_others(const CallArguments &arguments) {
    const Call &call = arguments.call;
    if (&call == &calls::clFinish) {
        const QueueObject *const queue = QueueObject::from(arguments.as<cl_command_queue>(0));
        return queue != nullptr && !queue->is_native() &&
               queue->used.load(std::memory_order_relaxed);
    }
    const bool asks_times = &call == &calls::clGetEventProfilingInfo;
    if (asks_times || &call == &calls::clGetEventInfo) {
        EventObject *const event = EventObject::from(arguments.as<cl_event>(0));
        if (event == nullptr) return false;
        event->asked = (asks_times || arguments.words[1] == CL_EVENT_COMMAND_EXECUTION_STATUS) &&
                       must_ask(*event);
        return event->asked;
    }
    if (&call != &calls::clWaitForEvents) return true;
    const cl_event *const list = arguments.as<const cl_event *>(1);
    for (std::size_t i = 0; list != nullptr && i < arguments.words[0]; ++i)
        if (const EventObject *const event = EventObject::from(list[i]);
            event != nullptr && !event->known_here())
            return true;
    return false;
}

/// If other processes also make this call, waits until the call before it is decided.
void wait_for_decisions(const CallArguments &arguments) {
    World &world = World::get();
    if (!call_is_undecided || world.alone() || in_callback() || !is_compared(arguments)) return;
    world.calls().look_for_overlap();
    while (call_is_undecided) {
        const Unlocked unlocked;
        call_is_undecided.wait(true);
    }
}

/// Records a call for the comparison with other processes' calls or, in a central host, for the
/// processes that follow it.
void note(const CallArguments &arguments) {
    const Call &call = arguments.call;
    if (call.comparison == Comparison::never && !calls_are_followed) return;
    World &world = World::get();
    if (!host_mode().orders_calls()) {
        wait_for_decisions(arguments);
        return record(arguments);
    }
    if (world.has_ended() || !call.is_followed() || !concerns_others(arguments)) return;
    record(arguments);
    // Never freed: threads may make calls while the program ends.
    static auto &writer = *new RecordWriter;
    writer.clear();
    put_call(writer, arguments);
    world.append(writer.record());
}

}  // namespace

cl_int code_of_exception(std::string_view function) noexcept {
    try {
        throw;
    } catch (const OutOfMemory &error) {
        if (!World::get().alone())
            end_job(fmt::format("{}: rank {}: {}; use less memory at once", function,
                                World::get().self(), error.status().message),
                    "because other processes may have enqueued the command");
        log_info("{}: {}", function, error.status().message);
        return error.status().code;
    } catch (const Error &error) {
        const cl_int code = error.status().code;
        const std::string text =
            fmt::format("{}: {}: {}", function, error.status().message, code_text(code));
        // The program gets no device, and the code alone does not show the reason.
        if (code == CL_MPI_THREAD_LEVEL_TOO_LOW)
            log_error("{}", text);
        else
            log_info("{}", text);
        return code;
    } catch (const std::bad_alloc &) {
        return CL_OUT_OF_HOST_MEMORY;
    } catch (...) {
        return CL_OUT_OF_RESOURCES;
    }
}

void throttle(const CallArguments &arguments) {
    if (!arguments.call.enqueues()) return;
    QueueObject *const queue = QueueObject::from(arguments.as<cl_command_queue>(0));
    if (queue == nullptr) return;
    Executor &executor = World::get().executor();
    // Such commands wait for nothing that a call of this library would have to end.
    if (executor.decides_nothing(*queue->context)) return;
    const std::vector<Event> markers = executor.throttle().markers_to_wait_for(*queue);
    if (markers.empty()) return;
    const Unlocked unlocked;
    for (const Event &marker : markers) wait_for(marker.get());
}

void record(const CallArguments &arguments) {
    if (arguments.call.comparison == Comparison::never) return;
    World &world = World::get();
    if (world.alone() || (!host_mode().orders_calls() && !is_compared(arguments))) return;
    world.calls().record(arguments.call, ComparedValues(arguments));
}

void begin_call(const CallArguments &arguments, bool recorded_aside) {
    throttle(arguments);
    if (recorded_aside)
        World::get().executor().note_aside();
    else
        note(arguments);
}

}  // namespace cldist::cluster
