#include "cluster/api/guard.hpp"

#include <new>
#include <vector>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "events/failure.hpp"

namespace cldist::cluster {

cl_int code_of_exception(std::string_view function) noexcept {
    try {
        throw;
    } catch (const Error &error) {
        if (dynamic_cast<const OutOfMemory *>(&error) != nullptr && !World::get().alone())
            end_job(fmt::format("{}: rank {}: {}; use less memory at once", function,
                                World::get().self(), error.status().message),
                    "because other processes may have enqueued the command");
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
    if (!world.alone()) world.calls().record(arguments.call, ComparedValues(arguments));
}

void begin_call(const CallArguments &arguments, bool recorded_aside) {
    throttle(arguments);
    if (recorded_aside) return World::get().executor().note_aside();
    // The first such call joins the other processes.
    if (arguments.call.comparison != Comparison::never) World::get();
    host_mode().note_call(arguments);
}

}  // namespace cldist::cluster
