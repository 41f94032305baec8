#include "cluster/executor.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.hpp"
#include "cluster/host_region.hpp"
#include "cluster/world.hpp"
#include "ocl/query.hpp"
#include "pipeline/plan.hpp"

namespace cldist::cluster {
namespace {

// How often what has ended is looked for.
constexpr unsigned forget_every = 32;

// Commands between two markers, and how many of these may be open.
constexpr unsigned milestone = 32;
constexpr std::size_t most_milestones = 2;
// Of an image that is moved as a whole.
constexpr std::array<std::size_t, 3> no_offset{};

void flush_producer(cl_event event) {
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    if (queue != nullptr) clFlush(queue);
}

bool has_discrete_device(const Topology &topology, int rank, const std::vector<MemoryTraits> &memories) {
    for (Device memory = 0; memory < topology.devices(); ++memory)
        if (topology.process_of(memory) == static_cast<Process>(rank) && !memories[memory].host_memory) return true;
    return false;
}

std::unique_ptr<cldist::Command> command_of(std::unique_ptr<Operation> operation,
                                            std::unique_ptr<Bridge> bridge = nullptr, cl_device_id device = nullptr) {
    std::vector<std::unique_ptr<Operation>> operations;
    operations.push_back(std::move(operation));
    return std::make_unique<cldist::Command>(std::move(operations), std::move(bridge), device);
}

TimesOfCommand times_of_command(const EventObject &event) {
    if ((event.queue->properties & CL_QUEUE_PROFILING_ENABLE) == 0) return {};
    if (!event.native) return std::function<Times()>();
    return [native = std::make_shared<const cldist::Event>(cldist::Event::share(event.native.get()))] {
        return times_of(native->get());
    };
}

// What waits for all of `waits`, of no queue's own.
Start start_behind(const QueueInfo &queue, std::span<const cl_event> waits) {
    if (waits.size() > 1) return enqueue_start(queue, waits, {});
    Start start;
    if (waits.empty()) return start;
    flush_producer(waits.front());
    start.events.push_back(cldist::Event::share(waits.front()));
    start.gate = start.last = waits.front();
    return start;
}

}  // namespace

Executor::Executor(Schedule &schedule, std::shared_ptr<Runtime> runtime, MPI_Comm comm,
                   std::vector<MemoryTraits> memories)
    : schedule_(schedule),
      runtime_(std::move(runtime)),
      comm_(comm),
      tags_(runtime_->max_tag()),
      memories_(std::move(memories)),
      polls_(has_discrete_device(schedule.topology(), runtime_->rank(), memories_)) {}

void Executor::know(MemObject &object, Contents contents) {
    object.id = schedule_.create_buffer(object.size, contents);
    if (object.id >= objects_.size()) objects_.resize(object.id + 1);
    objects_[object.id] = &object;
}

void Executor::forget(MemObject &object) {
    objects_[object.id] = nullptr;
    schedule_.release_buffer(object.id);
}

Wire Executor::wire(const Message &message) const {
    const auto tag = static_cast<int>(message.number % (static_cast<std::uint64_t>(tags_) + 1));
    return {comm_, static_cast<int>(message.peer), tag};
}

Link Executor::link(const Transfer &transfer) const {
    const Topology &topology = schedule_.topology();
    return {topology.host_of(topology.process_of(transfer.source)) ==
                topology.host_of(topology.process_of(transfer.target)),
            memories_[transfer.source],
            memories_[transfer.kind == Transfer::Kind::send ? transfer.source : transfer.target]};
}

// NVIDIA's driver takes about a thousand commands that wait; then enqueueing blocks, and with it every other call, those
// among them that would end the waiting. So the host does not run ahead of the device by so many. Leaves the lock
// meanwhile. Behind an event that the program has to set itself commands may be as many as it likes.
void Executor::keep_back(QueueObject &queue) {
    if (++queue.since_marker < milestone || queue.context->open_user_events != 0) return;
    queue.since_marker = 0;
    if (queue.space->resources()->processor()) return;
    cldist::Event marker;
    check(clEnqueueMarkerWithWaitList(queue.native.get(), 0, nullptr, marker.out()), "clEnqueueMarkerWithWaitList");
    clFlush(queue.native.get());
    queue.milestones.push_back(std::move(marker));
    if (queue.milestones.size() <= most_milestones) return;
    const cldist::Event first = std::move(queue.milestones.front());
    queue.milestones.pop_front();
    const cl_event event = first.get();
    api_mutex().unlock();
    clWaitForEvents(1, &event);
    api_mutex().lock();
}

void Executor::prepare(const Enqueued &command) {
    code_ = CL_SUCCESS;
    waits_.clear();
    native_event_.reset();
    command.queue.used = true;
    poisoned_ = std::any_of(command.wait_list.begin(), command.wait_list.end(),
                            [](const EventObject *event) { return event->known_here() && event->status_here() < 0; });
    // With one memory and no other process nothing has to move, and commands that the program left unordered may stay so.
    if (alone() && command.queue.context->spaces.size() == 1) {
        decisions_ = nullptr;
        native_ = true;
    } else {
        decide(command);
    }
    if (!native_) return;
    for (EventObject *const event : command.wait_list)
        if (event->agreed != CL_COMPLETE) waits_.push_back(event->native_in(*command.queue.space, once_enqueued_));
}

void Executor::decide(const Enqueued &command) {
    if (since_forgetting_++ == forget_every) {
        since_forgetting_ = 0;
        schedule_.over(steps_.forget_ended());
    }
    scheduled_.clear();
    for (EventObject *const event : command.wait_list)
        if (!event->is_user() && event->agreed != CL_COMPLETE) scheduled_.push_back(&event->scheduled);
    const Command wanted{command.queue.device->memory, command.queue.id, command.accesses, scheduled_,
                         command.result.size > 0};
    decisions_ = &schedule_.decide(wanted);
    native_ = decisions_->actual;

    const auto event_of = [&](CommandId id) -> EventObject & {
        return **std::find_if(command.wait_list.begin(), command.wait_list.end(),
                              [id](const EventObject *e) { return e->scheduled.command == id; });
    };
    for (const Completion &completion : decisions_->completions_sent)
        send_completion(event_of(completion.command), completion.message);
    for (const Completion &completion : decisions_->completions_awaited) {
        EventObject &event = event_of(completion.command);
        event.ending = std::make_shared<Ending>();
        submit_now(make_status_receive(wire(completion.message), event.ending, runtime_->engine_driver()), CL_COMPLETE);
    }
    for (const Transfer &transfer : decisions_->transfers) start(transfer);
    if (native_) steps_.add_waits(decisions_->after, *command.queue.space, waits_);
}

Ref<EventObject> Executor::finish(Enqueued &command, bool event_wanted) {
    const bool passes_result =
        decisions_ != nullptr && (decisions_->result.from.has_value() || !decisions_->result.to.empty());
    for (const StandIn &stand_in : std::exchange(once_enqueued_, {})) end_alike(*stand_in.ending, stand_in.event.get());
    // What failed meanwhile may have done so before the platform looked: the command may never end.
    if (native_ && !poisoned_ && first_failure(waits_) < 0) {
        poisoned_ = true;
        std::vector<cldist::Event> remains;
        remains.push_back(std::move(native_event_));
        runtime_->engine().keep_remains(nullptr, std::move(remains));
    }
    std::shared_ptr<Ending> failed;
    if (native_ && (poisoned_ || code_ != CL_SUCCESS)) {
        failed = std::make_shared<Ending>();
        failed->set(poisoned_ ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : code_);
        if (!poisoned_) {
            if (alone()) throw Error(code_, "the device's own platform refused the command");
            log_error("a command ends with {}: the device's own platform refused it", code_);
        }
    }
    if (native_ && failed == nullptr && decisions_ != nullptr) {
        const Step step{decisions_->event.command, 0};
        if (native_event_)
            steps_.add(step, *command.queue.space, cldist::Event::share(native_event_.get()));
        else
            steps_.add(step, command.queue);
    }
    if (!event_wanted && !passes_result) return {};

    EventObject *const event = new EventObject(*command.queue.context, &command.queue, command.type);
    Ref<EventObject> held(event);
    event->release();  // the program has it once it is given to it
    if (decisions_ != nullptr) {
        event->scheduled = decisions_->event;
        event->number = decisions_->event.command;
    }
    event->ending = failed;
    if (native_ && failed == nullptr) {
        event->native = std::move(native_event_);
        event->space = command.queue.space;
    }
    if (passes_result) pass_result(command, *event);
    return held;
}

// What the host reads reaches all processes.
void Executor::pass_result(Enqueued &command, EventObject &event) {
    const Relay &relay = decisions_->result;
    std::vector<Wire> to;
    for (const Message &message : relay.to) to.push_back(wire(message));
    const std::shared_ptr<Ending> failed = std::exchange(event.ending, std::make_shared<Ending>());
    command.queue.results.push_back(event.ending);
    const bool by_caller = command.blocking && failed == nullptr;
    auto operation =
        make_relay(std::move(command.result), relay.from ? wire(*relay.from) : Wire{MPI_COMM_NULL, 0, 0}, std::move(to),
                   event.ending, times_of_command(event), by_caller ? caller_driver() : runtime_->engine_driver());
    if (by_caller)
        event.result = command_of(std::move(operation));
    else if (failed == nullptr)
        submit(std::move(operation), event.native.get());
    else
        submit_now(std::move(operation), failed->status());
}

void Executor::send_completion(EventObject &event, const Message &message) {
    auto operation = make_status_send(wire(message), times_of_command(event), runtime_->engine_driver());
    if (event.native)
        submit(std::move(operation), event.native.get());
    else
        submit_now(std::move(operation), event.status_here());  // it has failed already
}

void Executor::tell_all(EventObject &event) {
    if (alone()) return;
    if (event.agreed) {
        if (event.known_here()) return;
        event.ending = std::make_shared<Ending>();
        event.ending->set(*event.agreed);
        return;
    }
    const Relay relay = schedule_.tell_all(event.scheduled);
    if (!relay.from) {
        for (const Message &message : relay.to) send_completion(event, message);
        return;
    }
    auto told = std::make_shared<Ending>();
    submit_now(make_status_receive(wire(*relay.from), told, runtime_->engine_driver()), CL_COMPLETE);
    if (!event.known_here()) event.ending = told;
    for (const Message &message : relay.to)
        told->then([this, told = told.get(), wire = wire(message)](cl_int status) {
            const TimesOfCommand times = [times = told->times()] { return times; };
            submit_now(make_status_send(wire, times, runtime_->engine_driver()), status);
        });
}

void Executor::end_with(cl_event native, std::shared_ptr<Ending> ending) {
    submit(make_notice(std::move(ending)), native);
}

// The engine's, from when `after` ends, and as it ends.
void Executor::submit(std::unique_ptr<Operation> operation, cl_event after) {
    if (after == nullptr) {
        submit_now(std::move(operation), CL_COMPLETE);
        return;
    }
    flush_producer(after);
    runtime_->engine().start_when_ready(command_of(std::move(operation), std::make_unique<Bridge>(after)),
                                        {nullptr, true, polls_});
}

void Executor::submit_now(std::unique_ptr<Operation> operation, cl_int status) {
    runtime_->engine().submit(command_of(std::move(operation)),
                              status < 0 ? Status::failure(status, "a command that was waited for failed") : Status{});
}

// A transfer that this process can't begin, for want of memory say, fails at both ends, and so does the command that it is
// for; the peer must not wait for it.
void Executor::start(const Transfer &transfer) {
    MemObject &object = *objects_[transfer.buffer];
    try {
        if (transfer.kind == Transfer::Kind::copy)
            start_copy(transfer, object);
        else if (object.is_image())
            start_image_message(transfer, object);
        else
            start_message(transfer, object);
    } catch (const Error &error) {
        log_error("{} bytes can't be moved: {} ({})", transfer.end - transfer.begin, error.status().message,
                  error.status().code);
        const bool sends = transfer.kind == Transfer::Kind::send;
        if (!sends) poisoned_ = true;
        if (transfer.kind == Transfer::Kind::copy) return;
        DeviceRange nothing{nullptr, {}, 0, transfer.end - transfer.begin, nullptr, {}};
        runtime_->engine().submit(
            command_of(make_channel_transfer(std::move(nothing), sends ? Direction::send : Direction::recv,
                                             wire(transfer.message), link(transfer), runtime_->engine_driver())),
            error.status());
    }
}

void Executor::start_message(const Transfer &transfer, MemObject &object) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    Space &space = *object.context->space(sends ? transfer.source : transfer.target);
    const std::size_t size = transfer.end - transfer.begin;
    const std::shared_ptr<DeviceResources> &resources = space.resources();
    const QueueInfo &queue = space.transfer_queue();
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, space, waits);

    DeviceRange range{resources, Mem::share(object.native(space)), transfer.begin, size, nullptr, {}};
    std::vector<Mapping> mappings;
    if (plan_mapping(resources->host_memory(), size, link(transfer).advice_here(), config()))
        mappings.push_back(
            {range.buffer.get(), range.offset, size, static_cast<cl_map_flags>(sends ? CL_MAP_READ : CL_MAP_WRITE)});
    auto bridge = find_lasting(queue, mappings) || mappings.empty()
                      ? std::make_unique<Bridge>(queue.context, start_behind(queue, waits))
                      : std::make_unique<Bridge>(queue, waits, mappings);
    if (!mappings.empty()) range.mapped = static_cast<std::byte *>(mappings.front().memory);
    steps_.add(transfer.step, space, cldist::Event::share(bridge->user_visible_event()));
    start_channel(transfer, std::move(range), std::move(bridge), queue.device,
                  {nullptr, !waits.empty(), !resources->processor()});
}

// An image travels as the bytes of host memory: NVIDIA's driver has no copies between buffers and arrays of 1D images.
void Executor::start_image_message(const Transfer &transfer, MemObject &image) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    Space &space = *image.context->space(sends ? transfer.source : transfer.target);
    const std::size_t size = transfer.end - transfer.begin;
    const QueueInfo &queue = space.transfer_queue();
    const auto extent = extents(image.desc);
    const std::shared_ptr<std::byte[]> memory = own_memory(size);
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, space, waits);

    cldist::Event copied;
    std::unique_ptr<Bridge> bridge;
    if (sends) {
        check(clEnqueueReadImage(queue.queue, image.native(space), CL_FALSE, no_offset.data(), extent.data(), 0, 0,
                                 memory.get(), static_cast<cl_uint>(waits.size()),
                                 waits.empty() ? nullptr : waits.data(), copied.out()),
              "clEnqueueReadImage");
        const cl_event after = copied.get();
        bridge = std::make_unique<Bridge>(queue.context, start_behind(queue, {&after, 1}));
        steps_.add(transfer.step, space, std::move(copied));
    } else {
        bridge = std::make_unique<Bridge>(queue.context);
        waits.push_back(bridge->user_visible_event());
        check(clEnqueueWriteImage(queue.queue, image.native(space), CL_FALSE, no_offset.data(), extent.data(), 0, 0,
                                  memory.get(), static_cast<cl_uint>(waits.size()), waits.data(), copied.out()),
              "clEnqueueWriteImage");
        keep_until(copied.get(), memory);
        clFlush(queue.queue);
        steps_.add(transfer.step, space, std::move(copied));
    }
    // Also where the image's command has failed before the message has come.
    keep_until(bridge->user_visible_event(), memory);
    start_channel(transfer, {nullptr, {}, 0, size, memory.get(), {}}, std::move(bridge), queue.device,
                  {nullptr, sends, !space.resources()->processor()});
}

void Executor::start_channel(const Transfer &transfer, DeviceRange range, std::unique_ptr<Bridge> bridge,
                             cl_device_id device, const Engine::StartRule &rule) {
    const Direction direction = transfer.kind == Transfer::Kind::send ? Direction::send : Direction::recv;
    const bool starts_now = bridge->start().gate == nullptr;
    auto command = command_of(make_channel_transfer(std::move(range), direction, wire(transfer.message), link(transfer),
                                                    runtime_->engine_driver()),
                              std::move(bridge), device);
    if (starts_now)
        runtime_->engine().submit(std::move(command), {});
    else
        runtime_->engine().start_when_ready(std::move(command), rule);
}

// Between two native platforms of this process, through host memory.
void Executor::start_copy(const Transfer &transfer, MemObject &object) {
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    const std::size_t size = transfer.end - transfer.begin;
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, source, waits);
    const std::shared_ptr<std::byte[]> memory = own_memory(size);
    cldist::Event read;
    const auto extent = extents(object.desc);
    auto count = static_cast<cl_uint>(waits.size());
    const cl_event *const read_waits = waits.empty() ? nullptr : waits.data();
    check(object.is_image()
              ? clEnqueueReadImage(source.transfer_queue().queue, object.native(source), CL_FALSE, no_offset.data(),
                                   extent.data(), 0, 0, memory.get(), count, read_waits, read.out())
              : clEnqueueReadBuffer(source.transfer_queue().queue, object.native(source), CL_FALSE, transfer.begin,
                                    size, memory.get(), count, read_waits, read.out()),
          "reading for another platform's device");
    clFlush(source.transfer_queue().queue);

    cl_int code = CL_SUCCESS;
    cldist::Event arrived = cldist::Event::adopt(clCreateUserEvent(target.context.get(), &code));
    check(code, "clCreateUserEvent");
    auto ending = std::make_shared<Ending>();
    waits.clear();
    steps_.add_waits(transfer.after, target, waits);
    waits.push_back(arrived.get());
    cldist::Event written;
    count = static_cast<cl_uint>(waits.size());
    check(object.is_image()
              ? clEnqueueWriteImage(target.transfer_queue().queue, object.native(target), CL_FALSE, no_offset.data(),
                                    extent.data(), 0, 0, memory.get(), count, waits.data(), written.out())
              : clEnqueueWriteBuffer(target.transfer_queue().queue, object.native(target), CL_FALSE, transfer.begin,
                                     size, memory.get(), count, waits.data(), written.out()),
          "writing for another platform's device");
    clFlush(target.transfer_queue().queue);
    end_alike(*ending, arrived.get());
    end_with(read.get(), std::move(ending));
    keep_until(written.get(), memory);
    steps_.add(transfer.step, source, std::move(read));
    steps_.add(transfer.step, target, std::move(written));
}

void Executor::finish_all() {
    for (const cldist::Event &rest : steps_.rest()) {
        const cl_event event = rest.get();
        flush_producer(event);
        clWaitForEvents(1, &event);
    }
    runtime_->engine().wait_idle(0);
}

}  // namespace cldist::cluster
