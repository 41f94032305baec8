#include "api/file_commands.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "api/boundary.hpp"
#include "api/event_table.hpp"
#include "api/starting.hpp"
#include "base/wakeup.hpp"
#include "events/failure.hpp"
#include "ocl/query.hpp"
#include "pipeline/file_operation.hpp"

namespace cldist {
namespace {

// A checked call.
struct Call {
    CommandArguments command;
    QueueInfo queue;
    RangeArgument range;
    std::shared_ptr<FileAccess> access;
    std::shared_ptr<DeviceResources> resources;
};

// Up to this size a blocking command copies instead of mapping.
constexpr std::size_t largest_copied = 512 * 1024;

using Operations = std::vector<std::unique_ptr<Operation>>;

Call check(const FileCommand &command, const MakeFileAccess &make_access) {
    RangeArgument range{command.buffer, command.offset, command.size, command.direction};
    Call call{command.arguments, check_command(command.arguments, {&range, 1}), range, nullptr, nullptr};
    call.access = make_access(range.size);
    if (range.size != command.size) check_command(command.arguments, {&range, 1});
    // Other processes wait for a collective command, even if its wait list has failed.
    if (command.arguments.blocking != CL_FALSE && !call.access->collective()) check_not_failed(command.arguments);
    call.range = range;
    call.resources = resources_of(call.queue, {&call.range.buffer, 1});
    return call;
}

std::vector<Mapping> mappings_of(const Call &call) {
    const Advice *const advice = file_advice(*call.resources, call.range.direction, *call.access);
    if (!may_map(call.range, *call.resources, advice) || call.range.size == 0) return {};
    // Not CL_MAP_WRITE_INVALIDATE_REGION, because a file may end early.
    const cl_map_flags flags = reads_device(call.range.direction) ? CL_MAP_READ : CL_MAP_WRITE;
    return {{call.range.buffer, call.range.offset, call.range.size, flags}};
}

// `caller_queue` is as in DeviceRange.
Operations make_operations(const Call &call, const std::vector<Mapping> &mappings, cl_command_queue caller_queue,
                           bool calls_itself) {
    const auto [buffer, offset] = held(call.range, *call.resources);
    std::byte *const mapped = mappings.empty() ? nullptr : static_cast<std::byte *>(mappings.front().memory);
    DeviceRange range{call.resources, Mem::share(buffer), offset, call.range.size, mapped, Queue::share(caller_queue)};
    Operations operations;
    operations.push_back(make_file_transfer(std::move(range), call.range.direction, call.access, calls_itself));
    return operations;
}

bool wait_at_gate(const Call &call, const Start &start) {
    const auto record = std::make_shared<Record>(call.range.direction, call.access->name(), call.range.size);
    return wait_for_start(start, {&record, 1});
}

void enqueue(const Call &call) {
    std::vector<Mapping> mappings = mappings_of(call);
    const std::lock_guard lock(enqueueing_on(call.queue.queue));
    auto bridge = std::make_unique<Bridge>(call.queue, call.command.events(), mappings);
    Event event = Event::share(bridge->user_visible_event());
    ProgressThread &progress_thread = file_progress_thread();
    Operations operations = make_operations(call, mappings, nullptr, false);
    if (call.command.event != nullptr) event_table().add(event.get(), operations);
    auto command = std::make_unique<Command>(std::move(operations), std::move(bridge), call.queue.device);
    progress_thread.start_when_ready(std::move(command), {ordered_by(call.queue, call.command),
                                                          call.command.num_events != 0, !call.resources->is_cpu()});
    if (call.command.event != nullptr) *call.command.event = event.give();
}

// Returns true if a blocking command must wait for its turn before it accesses the file. If the command writes the
// file, its first copy can wait in the queue instead. A file with a lane needs the gate, because the command would
// otherwise block the lane while it waits.
bool needs_gate(const Call &call) {
    return call.command.num_events != 0 || call.range.size == 0 || !file_progress_thread().idle() ||
           !reads_device(call.range.direction) || call.access->lane() != nullptr;
}

// The calling thread drives the command and makes the file calls, except calls that several threads make. Without an
// event, the user's queue makes the copies, and only large reads use other threads.
Status run_here(const Call &call, const std::vector<Mapping> &mappings, const Status &gate,
                std::unique_ptr<Bridge> bridge) {
    const auto wakeup = std::make_shared<Wakeup>();
    Operations operations = make_operations(call, mappings, bridge == nullptr ? call.queue.queue : nullptr, true);
    if (bridge != nullptr) event_table().add(bridge->user_visible_event(), operations);
    Command command(std::move(operations), std::move(bridge), call.queue.device);
    command.woken_by([wakeup] { wakeup->wake(); });
    command.start(gate);
    drive(command, *wakeup);
    if (auto failed = command.take_failed_bridge()) file_progress_thread().keep_remains(std::move(failed), {});
    return command.status();
}

Status run_without_event(const Call &call) {
    // A copy of a small range takes one command. Mapping and unmapping take two.
    const bool copied = call.range.size <= largest_copied && config().path == Path::automatic;
    std::vector<Mapping> mappings = copied ? std::vector<Mapping>{} : mappings_of(call);
    if (!mappings.empty() || needs_gate(call)) {
        Start start = enqueue_start(call.queue, call.command.events(), mappings);
        if (!wait_at_gate(call, start)) {
            file_progress_thread().keep_remains(nullptr, std::move(start.events));
            return run_here(call, mappings, failed_wait().status(), nullptr);
        }
    }
    Status status = run_here(call, mappings, {}, nullptr);
    end_mappings(call.queue, mappings, !reads_device(call.range.direction));
    return status;
}

Status run_with_event(const Call &call) {
    std::vector<Mapping> mappings = mappings_of(call);
    std::unique_lock lock(enqueueing_on(call.queue.queue));
    auto bridge = std::make_unique<Bridge>(call.queue, call.command.events(), mappings);
    Event event = Event::share(bridge->user_visible_event());
    lock.unlock();
    const Status gate = wait_at_gate(call, bridge->start()) ? Status{} : failed_wait().status();
    Status status = run_here(call, mappings, gate, std::move(bridge));
    wait_for(event.get());
    *call.command.event = event.give();
    return status;
}

Status run_blocking(const Call &call) {
    return call.command.event == nullptr ? run_without_event(call) : run_with_event(call);
}

}  // namespace

cl_int run_file_command(const char *call, const FileCommand &command, const MakeFileAccess &make_access) noexcept {
    int system_error = errno;  // errno is unchanged unless the command sets it
    const cl_int code = at_boundary(call, [&] {
        const Call checked = check(command, make_access);
        Command::failure_policy = &failure_policy;
        // The progress thread's stall reports also cover blocking commands.
        ProgressThread &progress_thread = file_progress_thread();
        if (command.arguments.blocking == CL_FALSE) {
            enqueue(checked);
            return;
        }
        const cl_command_queue queue = ordered_by(checked.queue, command.arguments);
        if (queue != nullptr && !checked.queue.in_order) progress_thread.wait_started(queue);
        Status status = run_blocking(checked);
        if (status.system_error != 0) system_error = status.system_error;
        if (!status.ok()) throw Error(std::move(status));
    });
    errno = system_error;
    return code;
}

}  // namespace cldist
