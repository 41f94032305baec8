#include "cluster/execution/executor.hpp"

#include <algorithm>

#include "cluster/execution/operations.hpp"
#include "events/bridge.hpp"
#include "ocl/query.hpp"
#include "pipeline/file_operation.hpp"

namespace cldist::cluster {
namespace {

// Commands between two searches for ended steps.
constexpr unsigned forget_every = 32;

bool has_discrete_device(const Topology &topology, Process process,
                         const std::vector<MemoryTraits> &memories) {
    for (MemoryId memory = 0; memory < topology.memories(); ++memory)
        if (topology.process_of(memory) == process && !memories[memory].host_memory) return true;
    return false;
}

}  // namespace

cl_int enqueue_marker_behind(const QueueObject &queue, const Waits &waits) {
    const bool migrates = !queue.in_order() && queue.space->quirks.markers_wait_for_all;
    return cldist::enqueue_marker_behind(
        {.queue = queue.native.get(),
         .context = queue.space->context.get(),
         .in_order = queue.in_order(),
         .placeholder = migrates ? queue.space->small_buffer() : nullptr},
        std::span(waits.events, waits.count), waits.event);
}

Executor::Executor(Schedule &schedule, Process self, Transport &transport,
                   const std::vector<MemoryTraits> &memories, const HostMode &mode, HostLink *link)
    : schedule_(schedule),
      transport_(transport),
      mode_(mode),
      objects_(schedule, self, mode),
      ends_(schedule, transport, has_discrete_device(schedule.topology(), self, memories)),
      steps_([this](cl_event native, std::shared_ptr<Ending> ending) {
          ends_.end_with(native, std::move(ending));
      }),
      transfers_(schedule.topology(), self, transport, memories, objects_, steps_, ends_),
      memory_(mode, has_discrete_device(schedule.topology(), self, memories)),
      supply_(schedule, self, transport, link, ends_, steps_, memory_) {}

void Executor::attach(MemObject &buffer, MemoryId device) {
    if (decides_nothing(*buffer.context)) return;
    for (const Transfer &transfer : schedule_.attach(buffer.id, device).transfers)
        transfers_.start(transfer);
}

void Executor::detach(MemObject &buffer) {
    if (!decides_nothing(*buffer.context)) schedule_.detach(buffer.id);
}

void Executor::forget(QueueObject &queue) {
    steps_.forget_queue(queue);
    throttle_.forget(queue);
    memory_.forget_filled();
    // HostCopies would free the memory only in a later call, and the native context with it.
    for (auto &[event, memory] : memory_.copies().take_kept()) {
        const auto ended = std::make_shared<Ending>();
        ended->then([held = std::move(memory)](cl_int) {});
        ends_.end_with(event.get(), ended);
    }
}

void Executor::forget(Space &space) { steps_.forget_space(space); }

void Executor::forget_ended() {
    if (since_forgetting_++ < forget_every) return;
    since_forgetting_ = 0;
    schedule_.over(steps_.forget_ended());
}

void Executor::count(QueueObject &queue, bool native) {
    ++(native ? commands_.local : commands_.remote);
    if (native && !decides_nothing(*queue.context)) throttle_.count(queue);
}

void Executor::begin_parts(std::span<const CommandPart> parts, std::span<const BufferId> buffers,
                           KnownParts &known, const OpenUserEvents &behind) {
    forget_ended();
    for (const Transfer &transfer :
         schedule_.begin_parts(parts, buffers, known, behind.any(), behind.name()))
        transfers_.start(transfer);
}

// The command has no result, so the event promises only what the queue's earlier commands promise.
EventObject *Executor::event_of_left_out(QueueObject &queue, cl_command_type type) {
    auto *const event = new EventObject(queue, type);
    event->scheduled = schedule_.leave_out(queue.device->memory);
    event->user_events = queue.in_order() ? queue.user_events.all : queue.user_events.before;
    if (promises(*queue.context))
        event->promise = queue.in_order() ? queue.promises.all : queue.promises.before;
    return event;
}

void Executor::finish_all() {
    objects_.warn_of_unseen();
    for (const Event &rest : steps_.rest()) {
        const cl_event event = rest.get();
        flush_producer(event);
        clWaitForEvents(1, &event);
    }
    transport_.progress_thread().wait_idle(0);
    ends_.wait_for_finishes();
    transport_.progress_thread().wait_idle(0);
    if (ProgressThread *const progress_thread = find_file_progress_thread())
        progress_thread->wait_idle(0);
}

}  // namespace cldist::cluster
