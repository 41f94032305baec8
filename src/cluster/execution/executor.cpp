#include "cluster/execution/executor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "cluster/execution/host_region.hpp"
#include "cluster/execution/notice.hpp"
#include "cluster/objects/lock.hpp"
#include "ocl/query.hpp"
#include "pipeline/file_operation.hpp"
#include "pipeline/memory_access.hpp"
#include "pipeline/plan.hpp"

namespace cldist::cluster {
namespace {

// How often what has ended is looked for.
constexpr unsigned forget_every = 32;

// Copied by the call that enqueues a write, rather than handed to another thread.
constexpr std::size_t copied_at_once = 16384;

// Commands between two markers, and how many of these may be open.
constexpr unsigned milestone = 32;
constexpr unsigned milestone_of_cpus = 1024;
constexpr std::size_t most_milestones = 2;
// With a central host: so many bytes of the program's memory travel with the record of the command that reads them, to all.
constexpr std::size_t most_with_record = 256;
// Where they are, by HostLink's kinds.
enum Brought : unsigned { with_record, as_message };
// The origin of an image that is moved as a whole.
constexpr std::array<std::size_t, 3> no_offset{};

void flush_producer(cl_event event) {
    const auto queue = query<cl_command_queue>(event, CL_EVENT_COMMAND_QUEUE).value_or(nullptr);
    if (queue != nullptr) clFlush(queue);
}

bool has_discrete_device(const Topology &topology, Process process, const std::vector<MemoryTraits> &memories) {
    for (MemoryId memory = 0; memory < topology.memories(); ++memory)
        if (topology.process_of(memory) == process && !memories[memory].host_memory) return true;
    return false;
}

std::unique_ptr<Command> command_of(std::unique_ptr<Operation> operation, std::unique_ptr<Bridge> bridge = nullptr,
                                    cl_device_id device = nullptr) {
    std::vector<std::unique_ptr<Operation>> operations;
    operations.push_back(std::move(operation));
    return std::make_unique<Command>(std::move(operations), std::move(bridge), device);
}

bool is_open(const std::shared_ptr<Ending> &ending) { return ending != nullptr && !ending->over(); }
bool is_open(const Promise &promise) {
    return is_open(promise.landed) || is_open(promise.incoming) || is_open(promise.set);
}

/// Ends when that does, and never fails. Null if it has ended.
std::shared_ptr<Ending> over(const std::shared_ptr<Ending> &ending) {
    if (!is_open(ending)) return nullptr;
    auto passed = std::make_shared<Ending>();
    ending->then([passed](cl_int) { passed->set(CL_COMPLETE); });
    return passed;
}

TimesOfCommand times_of_command(const EventObject &event) {
    if ((event.queue->properties & CL_QUEUE_PROFILING_ENABLE) == 0) return {};
    if (!event.native) return std::function<Times()>();
    return [native = std::make_shared<const Event>(Event::share(event.native.get())), own = event.own_times] {
        return times_of(native->get(), own);
    };
}

/// The program's, also of a part.
std::span<EventObject *const> wait_list_of(const Enqueued &command) {
    return command.whole_wait_list.empty() ? command.wait_list : command.whole_wait_list;
}

bool is_map(const Enqueued &command) {
    return command.type == CL_COMMAND_MAP_BUFFER || command.type == CL_COMMAND_MAP_IMAGE;
}

/// An operation that another one carries out.
class Carried : public Operation {
public:
    explicit Carried(std::unique_ptr<Operation> carrier) : Operation(carrier->record()), carrier_(std::move(carrier)) {}

    void woken_by(const Waker &waker) final { carrier_->woken_by(waker); }
    void start(const Status &gate) final {
        if (gate.ok()) before();
        carrier_->start(gate);
    }
    Progress poll() final {
        const Progress progress = carrier_->poll();
        if (progress != Progress::done) return progress;
        if (!carrier_->status().ok()) fail(carrier_->status());
        after();
        return Progress::done;
    }
    [[nodiscard]] bool bytes_in_flight() const final { return carrier_->bytes_in_flight(); }
    [[nodiscard]] bool wakes() const final { return carrier_->wakes(); }

private:
    virtual void before() = 0;
    virtual void after() = 0;

    const std::unique_ptr<Operation> carrier_;
};

/// Sends the program's memory, and ends `sent` then.
class HostMemorySend final : public Carried {
public:
    /// `pack` is called before the carrier starts.
    HostMemorySend(std::unique_ptr<Operation> carrier, std::function<void()> pack, std::shared_ptr<Ending> sent,
                   std::shared_ptr<const void> kept)
        : Carried(std::move(carrier)), pack_(std::move(pack)), sent_(std::move(sent)), kept_(std::move(kept)) {}
    ~HostMemorySend() override { sent_->set(CL_TRANSFER_ABANDONED); }

private:
    void before() override {
        if (pack_) pack_();
    }
    void after() override { sent_->set(CL_COMPLETE); }

    const std::function<void()> pack_;
    const std::shared_ptr<Ending> sent_;
    const std::shared_ptr<const void> kept_;
};

cl_ulong system_ns() {
    using namespace std::chrono;
    return static_cast<cl_ulong>(duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
}

/// Notes when the carrier starts and ends.
class TimedOperation final : public Carried {
public:
    TimedOperation(std::unique_ptr<Operation> carrier, std::shared_ptr<Times> times)
        : Carried(std::move(carrier)), times_(std::move(times)) {}

private:
    void before() override { (*times_)[2] = system_ns(); }
    void after() override { (*times_)[3] = system_ns(); }

    const std::shared_ptr<Times> times_;
};

// What waits for all of `waits`, of no queue's own.
Start start_behind(const QueueInfo &queue, std::span<const cl_event> waits) {
    if (waits.size() > 1) return enqueue_start(queue, waits, {});
    Start start;
    if (waits.empty()) return start;
    flush_producer(waits.front());
    start.events.push_back(Event::share(waits.front()));
    start.gate = start.last = waits.front();
    return start;
}

}  // namespace

cl_int enqueue_marker_behind(const QueueObject &queue, const Waits &waits) {
    const cl_command_queue native = queue.native.get();
    if (queue.in_order()) return clEnqueueMarkerWithWaitList(native, waits.count, waits.events, waits.event);
    if (queue.space->is_pocl()) {
        const cl_mem buffer = queue.space->small_buffer();
        return clEnqueueMigrateMemObjects(native, 1, &buffer, 0, waits.count, waits.events, waits.event);
    }
    if (waits.count != 0) return clEnqueueMarkerWithWaitList(native, waits.count, waits.events, waits.event);
    cl_int code = CL_SUCCESS;
    const Event complete = Event::adopt(clCreateUserEvent(queue.space->context.get(), &code));
    if (code != CL_SUCCESS) return code;
    clSetUserEventStatus(complete.get(), CL_COMPLETE);
    const cl_event wait = complete.get();
    return clEnqueueMarkerWithWaitList(native, 1, &wait, waits.event);
}

Executor::Executor(Schedule &schedule, Process self, Transport &transport, const std::vector<MemoryTraits> &memories,
                   HostLink *link)
    : schedule_(schedule),
      self_(self),
      transport_(transport),
      memories_(memories),
      steps_([this](cl_event native, std::shared_ptr<Ending> ending) { end_with(native, std::move(ending)); }),
      polls_(has_discrete_device(schedule.topology(), self, memories_)),
      copies_possible_(HostCopies::possible(polls_)),
      link_(link) {}

const DeviceObject *Executor::first_holder(const ContextObject &context) const {
    if (link_ == nullptr) return nullptr;
    for (const auto &device : context.devices)
        if (device->process == 0) return device.get();
    return context.devices.front().get();
}

void Executor::know(MemObject &object, Contents contents) {
    const DeviceObject *const holder = contents == Contents::everywhere ? first_holder(*object.context) : nullptr;
    // The warning about the program's memory needs every command that uses this memory. An aggregate device's queue leaves no
    // command out, and the parts of launches know which device has which bytes.
    const bool attachable =
        !object.is_image() && (object.flags & CL_MEM_USE_HOST_PTR) == 0 && !object.context->aggregate;
    object.id = schedule_.create_buffer(object.size, holder != nullptr ? Contents::undefined : contents, attachable);
    if (holder != nullptr) schedule_.give_contents(object.id, holder->memory);
    if (object.id >= objects_.size()) objects_.resize(object.id + 1);
    objects_[object.id] = &object;
    object.keeper = this;
}

void Executor::forget(MemObject &object) {
    warn_of_unseen(object);
    if (counts_memory_) count_of(Kind::memory).more_bytes += schedule_.bytes(object.id);
    objects_[object.id] = nullptr;
    schedule_.release_buffer(object.id);
}

void Executor::attach(MemObject &buffer, MemoryId device) {
    if (decides_nothing(*buffer.context)) return;
    for (const Transfer &transfer : schedule_.attach(buffer.id, device).transfers) start(transfer);
}

void Executor::detach(MemObject &buffer) {
    if (!decides_nothing(*buffer.context)) schedule_.detach(buffer.id);
}

void Executor::forget(QueueObject &queue) {
    steps_.forget_queue(queue);
    // What is kept for later calls would keep the native context.
    for (auto &[event, memory] : copies_.take_kept()) {
        const auto ended = std::make_shared<Ending>();
        ended->then([held = std::move(memory)](cl_int) {});
        end_with(event.get(), ended);
    }
}

// The members that the last command used may belong to the space.
void Executor::forget(Space &space) {
    steps_.forget_space(space);
    native_event_.reset();
    own_times_.reset();
    passing_.clear();
}

Link Executor::link(const Transfer &transfer, Direction direction) const {
    const Topology &topology = schedule_.topology();
    return {topology.host_of(topology.process_of(transfer.source)) ==
                topology.host_of(topology.process_of(transfer.target)),
            memories_[transfer.source], memories_[direction == Direction::send ? transfer.source : transfer.target],
            transfer.kind == Transfer::Kind::copy};
}

// NVIDIA's driver takes about a thousand commands that wait. Then enqueueing blocks, and with it every other call, also a call that
// would end the waiting. So the program must not be that far ahead of the device. If it has user events to set, it may enqueue any
// number of commands behind them.
// PoCL takes any number of commands, but each waiting command takes memory: 6 KiB with a message each way. So the program must not be
// thousands of commands ahead in an in-order queue. PoCL's markers may never end behind a command that failed.
Event Executor::marker_to_wait_for(QueueObject &queue) {
    if (queue.since_marker < milestone || queue.context->open_user_events != 0) return {};
    if (queue.space->resources()->is_cpu() &&
        (queue.since_marker < milestone_of_cpus || !queue.in_order() || queue.context->is_careful()))
        return {};
    queue.since_marker = 0;
    Event marker;
    check(clEnqueueMarkerWithWaitList(queue.native.get(), 0, nullptr, marker.out()), "clEnqueueMarkerWithWaitList");
    clFlush(queue.native.get());
    queue.milestones.push_back(std::move(marker));
    if (queue.milestones.size() <= most_milestones) return {};
    Event first = std::move(queue.milestones.front());
    queue.milestones.pop_front();
    return first;
}

std::vector<Event> Executor::markers_to_wait_for(QueueObject &queue) {
    std::vector<Event> markers;
    const auto add = [&](QueueObject &each) {
        if (Event marker = marker_to_wait_for(each)) markers.push_back(std::move(marker));
    };
    if (queue.is_native()) add(queue);
    for (QueueObject *const lane : queue.own_lanes) add(*lane);
    return markers;
}

// Returns the native event that a command in the space must wait for. This process knows the event. A stand-in ends after the
// command is enqueued, because PoCL 3.1 never ends a command that waits for an event that failed earlier.
cl_event Executor::native_in(EventObject &event, Space &space) {
    if (event.native && event.space == &space) return event.native.get();
    for (const auto &[of, stand_in] : event.stand_ins)
        if (of == &space) return stand_in.get();
    cl_int code = CL_SUCCESS;
    Event stand_in = Event::adopt(clCreateUserEvent(space.context.get(), &code));
    check(code, "clCreateUserEvent");
    const cl_event native = stand_in.get();
    event.stand_ins.emplace_back(&space, std::move(stand_in));
    once_enqueued_.push_back({ending_of(event), Event::share(native)});
    return native;
}

// Ends when all of `events`, one at least, have, and fails if any has.
std::shared_ptr<Ending> Executor::ending_of_all(std::span<const cl_event> events) {
    std::vector<std::shared_ptr<Ending>> endings;
    for (std::size_t i = 0; i < events.size(); ++i) endings.push_back(std::make_shared<Ending>());
    auto all = all_of(endings);
    for (std::size_t i = 0; i < events.size(); ++i) end_with(events[i], endings[i]);
    return all;
}

// PoCL 3.1 aborts if one event of a wait list fails a command while another event of the list ends. So the command waits for one user
// event, which ends after all events of the list, and fails if any of them failed. The steps keep the command's event until then,
// because PoCL also aborts without that event. The user event ends after the command is enqueued: if it failed earlier, neither the
// command nor clFinish would end.
void Executor::wait_for_one(const Enqueued &command) {
    QueueObject &queue = command.queue;
    Space &space = *queue.space;
    if (queue.in_order()) steps_.add_last(queue, space, waits_);
    if (waits_.size() == 1 && !queue.has_barrier && !user_events_.any()) return;
    const EventObject *const only =
        waits_.size() == 1 && command.wait_list.size() == 1 ? command.wait_list[0] : nullptr;
    // The native event follows the ending. PoCL calls no callback if an event fails, so waiting for the native event would be late.
    const bool tells = only != nullptr && only->source == Source::ending && only->agreed != CL_COMPLETE;
    auto all = tells ? only->ending : ending_of_all(waits_);
    cl_int code = CL_SUCCESS;
    Event one = Event::adopt(clCreateUserEvent(space.context.get(), &code));
    check(code, "clCreateUserEvent");
    waits_.assign(1, one.get());
    passing_.push_back(Event::share(one.get()));
    once_enqueued_.push_back({std::move(all), std::move(one)});
}

std::vector<MemoryId> Executor::begin_parts(std::span<const CommandPart> parts, std::span<const BufferId> buffers,
                                            KnownParts &known, const OpenUserEvents &behind) {
    if (since_forgetting_++ >= forget_every) {
        since_forgetting_ = 0;
        schedule_.over(steps_.forget_ended());
    }
    std::vector<MemoryId> lacking;
    for (const Transfer &transfer : schedule_.begin_parts(parts, buffers, known, behind.any(), behind.name())) {
        poisoned_ = false;
        start(transfer);
        if (poisoned_) lacking.push_back(transfer.target);
    }
    return lacking;
}

void Executor::prepare(Enqueued &command) {
    code_ = CL_SUCCESS;
    waits_.clear();
    passing_.clear();
    promised_.clear();
    for (const EventObject *const event : wait_list_of(command))
        if (is_open(event->promise)) promised_.push_back(event->promise);
    incoming_ = nullptr;
    source_sent_ = nullptr;
    native_event_.reset();
    own_times_.reset();
    user_events_ = {};
    command.queue.used.store(true, std::memory_order_relaxed);
    if (command.type == CL_COMMAND_BARRIER && !command.queue.in_order()) command.queue.has_barrier = true;
    poisoned_ = command.lacks_input ||
                std::any_of(command.wait_list.begin(), command.wait_list.end(),
                            [](const EventObject *event) { return event->known_here() && event->status_here() < 0; });
    if (decides_nothing(*command.queue.context)) {
        decisions_ = nullptr;
        native_ = true;
    } else {
        decide(command);
        if (link_ != nullptr && command.source) bring_host_memory(command);
    }
    ++(native_ ? commands_.actual : commands_.others);
    if (native_) ++command.queue.since_marker;
    if (!native_ && receive_ != nullptr) transport_.progress_thread().submit(std::move(receive_), {});
    if (!native_) return;
    Space &space = *command.queue.space;
    for (EventObject *const event : command.wait_list)
        if (event->agreed != CL_COMPLETE) waits_.push_back(native_in(*event, space));
    wait_natively(command.behind, space);
    // An earlier result for the same memory must not arrive later.
    const bool uses_host_memory = command.reads_host_memory || (copies_possible_ && command.result.size > 0) ||
                                  is_expected(command.result.memory()) || is_read_here(command);
    if (uses_host_memory && promises()) {
        incoming_ = promised_before(command).incoming;
        if (command.staging == nullptr) wait_natively(incoming_, space);
    }
    // Another process's program may have set the user events already, so its commands behind them do not wait for this process's
    // program. If a user event is set to a failure, this command need not fail.
    if ((command.reads_host_memory || command.result.size > 0) && link_ == nullptr && !alone()) {
        const std::shared_ptr<Ending> set = promised_before(command).set;
        const bool is_waited_for = std::any_of(command.wait_list.begin(), command.wait_list.end(),
                                               [&](const auto &event) { return event->ending == set; });
        if (!is_waited_for) wait_natively(over(set), space);
    }
    if (receive_ != nullptr) start_receive(command.queue);
    if (decisions_ != nullptr && !poisoned_ && !waits_.empty() && command.queue.context->is_careful() &&
        space.is_pocl())
        wait_for_one(command);
}

Link Executor::link_between_hosts(Process other) const {
    static const MemoryTraits host_memory{true, {}};
    const Topology &topology = schedule_.topology();
    return {topology.host_of(other) == topology.host_of(self_), host_memory, host_memory, false};
}

// The program's memory is in process 0. The program may change it until the command can begin, which requires that the program has
// set all earlier user events.
void Executor::bring_host_memory(Enqueued &command) {
    const Process owner = command.queue.device->process;
    const std::size_t size = command.source->size();
    if (owner == 0 || size == 0) return;
    if (is_host()) {
        const Promise before = promised_before(command);
        const auto after = both(both(before.incoming, command.behind), before.set);
        const bool is_small = size <= most_with_record && !is_open(after);
        std::array<std::byte, most_with_record> bytes;
        if (is_small) pack(*command.source, bytes.data());
        link_->give(is_small ? with_record : as_message, std::span(bytes).first(is_small ? size : 0));
        if (!is_small) send_host_memory(command, *schedule_.message_from_first(owner), after, before.set);
        return;
    }
    const HostLink::Given given = link_->take();
    if (given.kind == as_message) {
        if (const auto message = schedule_.message_from_first(owner)) receive_host_memory(command, *message);
    } else if (native_) {
        command.brought = own_memory(size);
        std::copy(given.bytes.begin(), given.bytes.end(), command.brought.get());
    }
}

// If the command fails first, its event promises nothing, and the memory may be gone: nothing is read.
void Executor::send_host_memory(const Enqueued &command, const Message &message, const std::shared_ptr<Ending> &after,
                                const std::shared_ptr<Ending> &set) {
    const HostRegion source = *command.source;
    std::shared_ptr<std::byte[]> packed;
    std::function<void()> pack_first;
    if (source.has_gaps()) {
        packed = own_memory(source.size());
        pack_first = [source, to = packed.get()] { pack(source, to); };
    }
    DeviceRange range{nullptr, {}, 0, source.size(), packed != nullptr ? packed.get() : source.begin, {}};
    source_sent_ = std::make_shared<Ending>();
    auto kept = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(std::move(packed),
                                                                                                      command.kept);
    auto send = std::make_shared<std::unique_ptr<Operation>>(std::make_unique<HostMemorySend>(
        transport_.transfer(std::move(range), Direction::send, message, link_between_hosts(message.peer)),
        std::move(pack_first), source_sent_, std::move(kept)));
    const cl_int failed = poisoned_ ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_COMPLETE;
    if (is_open(after))
        after->then([this, send, set, failed](cl_int) {
            submit_now(std::move(*send), set != nullptr ? std::min(failed, set->status()) : failed);
        });
    else
        submit_now(std::move(*send), failed);
}

// Starts with start_receive(), once it is known what else the command waits for.
void Executor::receive_host_memory(Enqueued &command, const Message &message) {
    const std::size_t size = command.source->size();
    command.brought = brought_memory(size);
    Space &space = *command.queue.space;
    auto bridge = std::make_unique<Bridge>(space.context.get());
    waits_.insert(waits_.begin(), bridge->user_visible_event());
    passing_.push_back(Event::share(bridge->user_visible_event()));
    keep_until(bridge->user_visible_event(), command.brought);  // the command may fail earlier
    DeviceRange range{nullptr, {}, 0, size, command.brought.get(), {}};
    // Without a device: the command reports the failure, so the receive does not.
    receive_ =
        command_of(transport_.transfer(std::move(range), Direction::recv, message, link_between_hosts(message.peer)),
                   std::move(bridge));
}

// Memory that counts itself in bytes_brought_ as long as it exists.
std::shared_ptr<std::byte[]> Executor::brought_memory(std::size_t size) {
    std::shared_ptr<std::byte[]> memory = own_memory(size);
    *bytes_brought_ += size;
    std::byte *const bytes = memory.get();
    return {bytes, [memory = std::move(memory), size, all = bytes_brought_](std::byte *) mutable {
                memory.reset();
                *all -= size;
            }};
}

// The host sends bytes ahead, and they stay here until their command can run. Beyond a limit, the bytes stay at the host: the receive
// starts when the command waits for nothing else.
void Executor::start_receive(const QueueObject &queue) {
    constexpr std::size_t most_brought_ahead = std::size_t{256} << 20U;
    std::vector<cl_event> others(waits_.begin() + 1, waits_.end());
    if (queue.in_order()) steps_.add_last(queue, *queue.space, others);
    if (*bytes_brought_ <= most_brought_ahead || poisoned_ || others.empty()) {
        transport_.progress_thread().submit(std::move(receive_), {});
        return;
    }
    auto receive = std::make_shared<std::unique_ptr<Command>>(std::move(receive_));
    ending_of_all(others)->then(
        [this, receive](cl_int) { transport_.progress_thread().submit(std::move(*receive), {}); });
}

void Executor::wait_natively(const std::shared_ptr<Ending> &ending, Space &space) {
    Event event = event_of(ending, space);
    if (!event) return;
    waits_.push_back(event.get());
    passing_.push_back(std::move(event));
}

namespace {

Place place_of(const Enqueued &command) {
    return command.queue.place_of(command.type, !command.wait_list.empty() || !command.whole_wait_list.empty());
}

bool is_nothing(const Promise &promise) {
    return promise.landed == nullptr && promise.incoming == nullptr && promise.set == nullptr;
}

}  // namespace

// Returns the promises of the ends before the command.
Promise Executor::promised_before(const Enqueued &command) const {
    QueuePromises<Promise> queue = command.queue.promised();
    return promise_of_next(queue, place_of(command), {command.behind, {}, {}}, std::span(promised_), join_promises);
}

// Returns the promise of the command's end. `own` is its result.
Promise Executor::promise(const Enqueued &command, Promise own) {
    QueuePromises<Promise> &queue = command.queue.promised();
    if (adds_nothing(command) && is_nothing(own) && is_nothing(queue.all) && is_nothing(queue.before)) return {};
    if (command.behind != nullptr) promised_.push_back({command.behind, {}, {}});
    return promise_of_next(queue, place_of(command), std::move(own), std::span<const Promise>(promised_),
                           join_promises);
}

// Whether results are on their way to that memory.
bool Executor::is_expected(std::span<const std::byte> memory) const {
    if (memory.empty() || landings_.empty()) return false;
    const std::byte *const begin = memory.data();
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    const auto from = reinterpret_cast<const std::byte *>(first - std::min(first, longest_landing_));
    for (auto at = landings_.lower_bound(from); at != landings_.end() && at->first < begin + memory.size(); ++at)
        if (at->second.end > begin && !at->second.landed->over()) return true;
    return false;
}

// Returns whether others are.
bool Executor::keep_open(std::span<const std::byte> memory, const std::shared_ptr<Ending> &landed) {
    if (landings_.size() >= tidy_landings_at_) {
        std::erase_if(landings_, [](const auto &entry) { return entry.second.landed->over(); });
        tidy_landings_at_ = std::max<std::size_t>(64, 2 * landings_.size());
    }
    if (landings_.empty()) longest_landing_ = 0;
    const bool overlaps = is_expected(memory);
    longest_landing_ = std::max(longest_landing_, memory.size());
    landings_.emplace(memory.data(), Landing{memory.data() + memory.size(), landed});
    return overlaps;
}

// A program that takes it for granted that commands change its memory would go on with old bytes.
void Executor::note_host_memory(const Enqueued &command) {
    for (const Access &access : command.accesses) {
        MemObject &object = *objects_[access.buffer];
        if ((object.flags & CL_MEM_USE_HOST_PTR) == 0) continue;
        if (command.result.size > 0 || is_map(command))
            object.seen_by_host = true;
        else if (access.mode != AccessMode::read && !object.written_by)
            object.written_by = command.queue.device->process;
    }
}

// By one process whose memory the bytes have not come to.
void Executor::warn_of_unseen(const MemObject &object) const {
    if (object.seen_by_host || !object.written_by) return;
    if (self_ != (*object.written_by == 0 ? 1U : 0U)) return;
    log_warning(
        "{} {}, of {} bytes with CL_MEM_USE_HOST_PTR at {}, was written by a device of rank {} and never mapped or "
        "read. The program's memory does not contain these bytes: map or read the buffer before you use it",
        object.is_image() ? "image" : "buffer", object.number(), object.size, object.host_ptr, *object.written_by);
}

void Executor::decide(const Enqueued &command) {
    if (!alone()) note_host_memory(command);
    if (since_forgetting_++ >= forget_every) {
        since_forgetting_ = 0;
        schedule_.over(steps_.forget_ended());
    }
    scheduled_.clear();
    for (EventObject *const event : command.wait_list)
        if (!event->is_user() && event->agreed != CL_COMPLETE) scheduled_.push_back(&event->scheduled);
    const Place place = place_of(command);
    user_events_ = user_events_before(command.queue, place, wait_list_of(command));
    const bool fails_with_others = user_events_.any();
    if (command.queue.whole == nullptr) note_user_events(command.queue, place, user_events_);
    // The command may fail, and then the old bytes must remain. Mapped memory has new bytes already: the program wrote them.
    const bool keeps_what_it_overwrites = fails_with_others && command.type != CL_COMMAND_UNMAP_MEM_OBJECT;
    const ScheduledCommand wanted{
        .memory = command.queue.device->memory,
        .queue = command.queue.id,
        .accesses = command.accesses,
        .wait_list = scheduled_,
        .result_to_hosts = command.result.size > 0,
        .may_fail = keeps_what_it_overwrites,
        .behind = user_events_.name(),
    };
    decisions_ = &(command.is_part ? schedule_.decide_part(wanted) : schedule_.decide(wanted));
    native_ = decisions_->actual;
    for (const BufferId id : decisions_->homes_changed) {
        const auto home = schedule_.home(id);
        const bool here = home && schedule_.topology().process_of(home->memory) == self_;
        objects_[id]->set_homes(home ? Homes{here ? Home::here : Home::elsewhere, home->memory + 1} : Homes{});
    }

    const auto event_of = [&](CommandId id) -> EventObject & {
        return **std::find_if(command.wait_list.begin(), command.wait_list.end(),
                              [id](const EventObject *e) { return e->scheduled.command == id; });
    };
    for (const Completion &completion : decisions_->completions_sent)
        send_completion(event_of(completion.command), completion.message);
    for (const Completion &completion : decisions_->completions_awaited) {
        EventObject &event = event_of(completion.command);
        auto told = std::make_shared<Ending>();
        submit_now(transport_.receive_status(completion.message, told), CL_COMPLETE);
        if (!event.known_here()) event.end_as(std::move(told));
    }
    for (const Transfer &transfer : decisions_->transfers) start(transfer);
    if (!native_) return;
    if (command.queue.in_order() && command.queue.context->is_careful())
        steps_.add_waits_in(command.queue, *command.queue.space, waits_);
    steps_.add_waits(decisions_->after, *command.queue.space, waits_);
}

Ref<EventObject> Executor::finish(Enqueued &command, bool event_wanted) {
    const bool passes_result =
        lands(command) ||
        (decisions_ != nullptr && (decisions_->result.from.has_value() || !decisions_->result.to.empty()));
    if (!native_) {
        for (const Transfer &transfer : decisions_->write_backs) start(transfer);
        if (!passes_result && !event_wanted && source_sent_ == nullptr && adds_nothing(command)) return {};
    }
    const bool may_fail_early = native_event_ && command.queue.context->is_careful() && command.queue.space->is_pocl();
    for (const StandIn &stand_in : std::exchange(once_enqueued_, {})) {
        end_alike(*stand_in.ending, stand_in.event.get());
        // PoCL 3.1's markers and barriers wait for more than their wait lists, and fail with the first event that fails. So do
        // commands behind such a barrier. PoCL aborts if their events have been freed when the awaited command ends, and it uses
        // these events after that end is visible.
        if (may_fail_early)
            stand_in.ending->then([&progress_thread = transport_.progress_thread(),
                                   kept = std::make_shared<Event>(Event::share(native_event_.get()))](cl_int status) {
                if (status >= 0) return;
                std::vector<Event> remains;
                remains.push_back(std::move(*kept));
                progress_thread.keep_remains(nullptr, std::move(remains));
            });
    }
    // An event may have failed before PoCL added the command to it, and then the command may never end. With NVIDIA's driver (580) the
    // command would fail when its whole wait list has ended, and commands enqueued in its in-order queue until then would fail, too.
    if (native_ && !poisoned_ && command.queue.space->is_pocl() && first_failure(waits_) < 0) {
        poisoned_ = true;
        std::vector<Event> remains;
        remains.push_back(std::move(native_event_));
        transport_.progress_thread().keep_remains(nullptr, std::move(remains));
    }
    std::shared_ptr<Ending> failed;
    if (native_ && (poisoned_ || code_ != CL_SUCCESS)) {
        failed = std::make_shared<Ending>();
        failed->set(poisoned_ ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : code_);
        if (!poisoned_) {
            if (alone()) throw Error(code_, "the device's driver rejected the command");
            log_error("a command fails with {}: the device's driver rejected it", code_text(code_));
        }
    }
    if (failed != nullptr) command.queue.context->failed = true;
    if (native_event_ && command.kept != nullptr) keep_until(native_event_.get(), command.kept);
    if (native_ && decisions_ != nullptr) {
        keep_step(command, failed != nullptr);
        for (const Transfer &transfer : decisions_->write_backs) start(transfer);
    }
    if (native_ && command.brought != nullptr && native_event_) keep_until(native_event_.get(), command.brought);
    Promise own{source_sent_, {}, {}};
    // The copies of later commands may bypass the queue. So they need this ending instead of the queue's order.
    if (native_ && failed == nullptr && is_tracked(command)) {
        own.incoming = std::make_shared<Ending>();
        end_with(native_event_.get(), own.incoming);
    }
    if (native_ && failed == nullptr && !lands(command) && is_read_here(command)) {
        own.landed = own.incoming = std::make_shared<Ending>();
        keep_open(command.result.memory(), own.landed);
        end_with(native_event_.get(), own.landed);
    }
    if (!event_wanted && !passes_result) {
        if (promises() && !(adds_nothing(command) && is_nothing(own))) promise(command, std::move(own));
        return {};
    }

    EventObject *const event = new EventObject(*command.queue.context, &command.queue, command.type);
    Ref<EventObject> held(event);
    event->release();  // the program has it once it is given to it
    if (decisions_ != nullptr) event->scheduled = decisions_->event;
    event->user_events = std::move(user_events_);
    if (failed != nullptr) event->end_as(failed);
    if (native_ && failed == nullptr) {
        event->source = Source::native;
        event->native = std::move(native_event_);
        event->own_times = std::move(own_times_);
        event->space = command.queue.space;
    }
    if (passes_result) {
        const bool arrives = lands(command) || decisions_->result.from;
        const auto earlier = arrives ? promised_before(command).landed : nullptr;
        own.landed = pass_result(command, *event, earlier);
        if (arrives) own.incoming = own.landed;
    }
    if (promises()) event->promise = promise(command, std::move(own));
    return held;
}

// It promises what the queue does: the command brings nothing to the program's memory.
EventObject *Executor::event_of_left_out(QueueObject &queue, cl_command_type type) {
    auto *const event = new EventObject(*queue.context, &queue, type);
    event->scheduled = schedule_.leave_out(queue.device->memory);
    event->user_events = queue.in_order() ? queue.user_events.all : queue.user_events.before;
    if (promises()) event->promise = queue.in_order() ? queue.promises.all : queue.promises.before;
    return event;
}

void Executor::keep_step(const Enqueued &command, bool failed) {
    const Step step{decisions_->event.command, 0};
    QueueObject &queue = command.queue;
    const bool careful = queue.context->is_careful();
    Steps::Order order{{}, 0, careful && !failed};
    // With one it fails when that has ended.
    if (careful || decisions_->after.size() > 1) order.after = decisions_->after;
    if (queue.in_order()) order.previous = std::exchange(queue.last, step.command);
    if (failed)
        steps_.add_failed(step, *queue.space, std::move(order));
    else if (native_event_)
        steps_.add(step, *queue.space, Event::share(native_event_.get()), std::move(order));
    else
        steps_.add(step, queue, std::move(order));
}

// What the host reads reaches all processes. Returns when it is in this one's memory, and passed on.
std::shared_ptr<Ending> Executor::pass_result(Enqueued &command, EventObject &event,
                                              const std::shared_ptr<Ending> &earlier) {
    const Relay relay = decisions_ != nullptr ? decisions_->result : Relay{};
    const std::shared_ptr<Ending> failed = event.ending;
    event.end_as(std::make_shared<Ending>());
    const bool by_caller = command.blocking && failed == nullptr && !follows();
    // Another result may still be on its way to the same memory; the later one must not overtake it.
    const bool overlaps = (lands(command) || relay.from) && keep_open(command.result.memory(), event.ending);
    // Nor may it come before this process's program has set the user events before it, as others may have.
    const std::shared_ptr<Ending> after =
        both(overlaps ? earlier : nullptr, relay.from ? over(promised_before(command).set) : nullptr);
    if (native_ && command.staging != nullptr) {
        std::byte *const target = std::exchange(command.result.data, command.staging.get());
        command.result.arrived = [target, size = command.result.size, memory = std::move(command.staging)] {
            std::memcpy(target, memory.get(), size);
        };
    }
    auto operation =
        transport_.relay(std::move(command.result), relay, event.ending, times_of_command(event), by_caller);
    if (by_caller) {
        event.result = command_of(std::move(operation));
        event.result_after = after;
    } else if (after != nullptr) {
        struct Held {
            std::unique_ptr<Operation> operation;
            std::shared_ptr<Ending> failed;
            Event native;
        };
        after->then([this, held = std::make_shared<Held>(std::move(operation), failed,
                                                         Event::share(event.native.get()))](cl_int) {
            if (held->failed == nullptr)
                submit(std::move(held->operation), held->native.get());
            else
                submit_now(std::move(held->operation), held->failed->status());
        });
    } else if (failed == nullptr) {
        submit(std::move(operation), event.native.get());
    } else {
        submit_now(std::move(operation), failed->status());
    }
    return event.ending;
}

// ---- Copies between devices and the program's memory -------------------------------------------------------------------

Result Executor::result_in(const HostRegion &host, const QueueObject &queue) const {
    const std::size_t size = host.size();
    if (follows()) {
        if (!queue.is_native()) return {nullptr, size, {}, true};
        const auto memory = own_memory(std::max<std::size_t>(size, 1));
        return {memory.get(), size, {}, true, memory};
    }
    const bool comes_natively = alone() || (is_host() && queue.is_native());
    const std::span<std::byte> target =
        host.has_gaps() ? std::span(host.begin, host.size_with_gaps()) : std::span<std::byte>();
    if (comes_natively || !host.has_gaps()) return {host.begin, size, {}, false, {}, target};
    const auto packed = own_memory(size);
    return {packed.get(), size, [host, packed] { unpack(packed.get(), host); }, true, {}, target};
}

void Executor::stage(Enqueued &command, const void *memory, std::size_t size) {
    QueueObject &queue = command.queue;
    if (follows() || !copies_possible_ || size == 0 || !queue.is_native() || !HostCopies::wanted(queue) ||
        copies_.is_page_locked(memory, size))
        return;
    // The program's memory may change while a write waits for a user event, and be gone if that fails: blocks are read once the
    // command begins.
    const bool may_be_late = command.reads_host_memory && queue.context->open_user_events != 0;
    if (size <= HostCopies::largest_whole() && !may_be_late) command.staging = copies_.memory(queue, size);
    command.in_blocks = command.staging == nullptr;
}

// The bytes come to the program's memory by pass_result().
cl_int Executor::read(Enqueued &command, const NativeRange &range, std::byte *to, const Waits &waits) {
    if (command.in_blocks) return copy_in_blocks(command, range, to, Direction::to_file, waits);
    std::byte *const memory = command.staging != nullptr ? command.staging.get() : to;
    return clEnqueueReadBuffer(command.queue.native.get(), range.buffer, CL_FALSE, range.offset, range.size, memory,
                               waits.count, waits.events, waits.event);
}

cl_int Executor::write(Enqueued &command, const NativeRange &range, const std::byte *from, const Waits &waits) {
    if (command.in_blocks) {
        auto *const memory = const_cast<std::byte *>(from);  // it is read alone
        return copy_in_blocks(command, range, memory, Direction::from_file, waits);
    }
    const cl_command_queue queue = command.queue.native.get();
    if (command.staging == nullptr)
        return clEnqueueWriteBuffer(queue, range.buffer, CL_FALSE, range.offset, range.size, from, waits.count,
                                    waits.events, waits.event);
    const bool now = !is_open(incoming_) && (command.blocking || range.size <= copied_at_once);
    std::vector<cl_event> all(waits.events, waits.events + waits.count);
    Event copied;
    if (now) {
        std::memcpy(command.staging.get(), from, range.size);
    } else {
        cl_int code = CL_SUCCESS;
        copied = Event::adopt(clCreateUserEvent(command.queue.space->context.get(), &code));
        check(code, "clCreateUserEvent");
        all.push_back(copied.get());
    }
    const cl_int code =
        clEnqueueWriteBuffer(queue, range.buffer, CL_FALSE, range.offset, range.size, command.staging.get(),
                             static_cast<cl_uint>(all.size()), all.empty() ? nullptr : all.data(), waits.event);
    if (code != CL_SUCCESS) return code;
    copies_.keep_until(Event::share(*waits.event), command.staging);
    if (now) return code;
    const auto copy = [from, size = range.size, memory = command.staging,
                       event = std::make_shared<const Event>(std::move(copied))] {
        io_threads().run([=] {
            std::memcpy(memory.get(), from, size);
            clSetUserEventStatus(event->get(), CL_COMPLETE);
        });
    };
    if (is_open(incoming_))
        incoming_->then([copy](cl_int) { copy(); });
    else
        copy();
    return code;
}

// The native queue gets two internal commands for the start and the end, like the library's file commands.
cl_int Executor::copy_in_blocks(Enqueued &command, const NativeRange &range, std::byte *memory, Direction direction,
                                const Waits &waits) {
    QueueObject &queue = command.queue;
    const std::shared_ptr<DeviceResources> &resources = queue.resources();
    const QueueInfo info{queue.native.get(),
                         queue.space->context.get(),
                         queue.device->native,
                         queue.in_order(),
                         resources->placeholder(),
                         resources->is_cpu(),
                         false};
    auto bridge = std::make_unique<Bridge>(info, std::span(waits.events, waits.count), std::span<Mapping>());
    const auto times = std::make_shared<Times>();
    times->fill(system_ns());
    own_times_ = times;
    *waits.event = Event::share(bridge->user_visible_event()).give();
    auto operation = std::make_unique<TimedOperation>(
        make_file_transfer({resources, Mem::share(range.buffer), range.offset, range.size, nullptr, {}}, direction,
                           std::make_shared<MemoryAccess>(memory), false),
        times);
    file_progress_thread().start_when_ready(command_of(std::move(operation), std::move(bridge)),
                                            {nullptr, waits.count != 0, !resources->is_cpu()});
    return CL_SUCCESS;
}

void Executor::give_memory(QueueObject &queue, MemObject &object, Mapped &mapped) {
    mapped.guard = guard_size(object, mapped);
    const std::size_t size = mapped.size + mapped.guard;
    if (!object.is_image() && copies_possible_ && queue.is_native() && HostCopies::wanted(queue))
        mapped.own = copies_.memory(queue, size);
    mapped.is_page_locked = mapped.own != nullptr;
    if (mapped.own == nullptr) mapped.own = own_memory(size);
    set_guard(mapped);
    mapped.memory = mapped.own.get();
    if (mapped.is_page_locked) copies_.add_page_locked(mapped.memory, mapped.size);
}

void Executor::send_completion(EventObject &event, const Message &message) {
    auto operation = transport_.send_status(message, times_of_command(event));
    if (event.native)
        submit(std::move(operation), event.native.get());
    else
        // It has failed; this may not have reached the host, which gets its result.
        event.ending->then([this, held = std::make_shared<std::unique_ptr<Operation>>(std::move(operation))](
                               cl_int status) { submit_now(std::move(*held), status); });
}

void Executor::tell_hosts(EventObject &event) {
    if (schedule_.hosts() == Hosts::first)
        tell_first(event);
    else
        tell_all(event);
}

void Executor::tell_first(EventObject &event) {
    const auto message = schedule_.tell_first(event.scheduled);
    if (!message) return;
    if (!is_host()) {
        send_completion(event, *message);
        return;
    }
    auto told = std::make_shared<Ending>();
    submit_now(transport_.receive_status(*message, told), CL_COMPLETE);
    if (!event.known_here()) event.end_as(std::move(told));
}

void Executor::tell_host_of_finish(EventObject &marker) {
    if (is_host() || marker.queue->in_order()) {
        tell_first(marker);
        return;
    }
    const auto message = schedule_.tell_first(marker.scheduled);
    if (!message) return;
    const auto tell = [this, message = *message] {
        submit_now(transport_.send_status(message, std::nullopt), CL_COMPLETE);
    };
    auto queue = std::make_shared<const Queue>(Queue::share(marker.queue->native.get()));
    ending_of(marker)->then([this, tell, queue = std::move(queue)](cl_int status) {
        if (status == CL_COMPLETE) {
            tell();
            return;
        }
        ++finishing_;
        std::thread([this, tell, queue]() mutable {
            clFinish(queue->get());
            queue.reset();  // before the process may end
            tell();
            if (--finishing_ == 0) finishing_.notify_all();
        }).detach();
    });
}

// A tree passes the parts' statuses to its root, and the command's status from the root to all processes, with the times of the
// longest part. The functions that an ending calls hold the ending, because they may run after everyone else has released it.
void Executor::tell_all_of_joint(EventObject &event) {
    struct Sum {
        std::mutex mutex;
        std::size_t open;
        cl_int code = CL_COMPLETE;
        Times times{};
    };
    // If all processes get each part's result, they also get its status.
    const Relay gather = event.scheduled.told_all ? Relay{} : schedule_.gather(event.scheduled.process);
    const Relay relay = schedule_.tell_all(event.scheduled);
    auto all = std::make_shared<Ending>();
    auto sum = std::make_shared<Sum>();
    sum->open = 1 + event.parts.size() + gather.to.size();
    const auto count = [all, sum](cl_int status, const Times &times) {
        {
            const std::lock_guard lock(sum->mutex);
            sum->code = std::min(sum->code, status);
            sum->times = longer(sum->times, times);
            if (--sum->open != 0) return;
        }
        all->set(sum->code, sum->times);
    };
    const bool is_timed = (event.queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    for (const auto &[lane, part] : event.parts)
        ending_of(*part)->then([count, fails = event.fails_with(*part), is_timed = is_timed && event.is_work(*part),
                                part = part](cl_int status) {
            count(fails ? status : CL_COMPLETE, is_timed && status == CL_COMPLETE ? part->times_here() : Times{});
        });
    for (const Message &message : gather.to) {
        auto told = std::make_shared<Ending>();
        told->then([count, ending = told](cl_int status) { count(status, ending->times()); });
        submit_now(transport_.receive_status(message, told), CL_COMPLETE);
    }
    const auto send = [this](const Message &message, cl_int status, const Times &times) {
        submit_now(transport_.send_status(message, [times] { return times; }), status);
    };
    auto told = std::make_shared<Ending>();
    event.ending = told;
    if (relay.from) {
        all->then([send, up = *gather.from, all](cl_int status) { send(up, status, all->times()); });
        submit_now(transport_.receive_status(*relay.from, told), CL_COMPLETE);
    } else {
        all->then([told, all](cl_int status) { told->set(status, all->times()); });
    }
    for (const Message &message : relay.to)
        told->then([send, message, told](cl_int status) { send(message, status, told->times()); });
    count(CL_COMPLETE, {});
}

void Executor::tell_all(EventObject &event) {
    if (event.is_joint()) {
        if (event.ending == nullptr) tell_all_of_joint(event);
        return;
    }
    if (alone()) return;
    if (event.agreed) {
        if (event.known_here()) return;
        event.end_as(std::make_shared<Ending>());
        event.ending->set(*event.agreed);
        return;
    }
    const Relay relay = schedule_.tell_all(event.scheduled);
    if (!relay.from) {
        for (const Message &message : relay.to) send_completion(event, message);
        return;
    }
    auto told = std::make_shared<Ending>();
    submit_now(transport_.receive_status(*relay.from, told), CL_COMPLETE);
    if (!event.known_here()) event.end_as(told);
    for (const Message &message : relay.to)
        told->then([this, told, message](cl_int status) {
            const TimesOfCommand times = [times = told->times()] { return times; };
            submit_now(transport_.send_status(message, times), status);
        });
}

void Executor::end_with(cl_event native, std::shared_ptr<Ending> ending) {
    if (progress_thread_is_over_) {
        const auto end = [](cl_event, cl_int status, void *data) {
            const std::unique_ptr<std::shared_ptr<Ending>> held(static_cast<std::shared_ptr<Ending> *>(data));
            (*held)->set(status);
        };
        auto held = std::make_unique<std::shared_ptr<Ending>>(std::move(ending));
        flush_producer(native);
        check(clSetEventCallback(native, CL_COMPLETE, end, held.get()), "clSetEventCallback");
        static_cast<void>(held.release());
        return;
    }
    submit(std::make_unique<Notice>(std::move(ending)), native);
}

const std::shared_ptr<Ending> &Executor::ending_of(EventObject &event) {
    if (event.ending == nullptr) {
        event.ending = std::make_shared<Ending>();
        end_with(event.native.get(), event.ending);
    }
    return event.ending;
}

// The progress thread's, from when `after` ends, and as it ends.
void Executor::submit(std::unique_ptr<Operation> operation, cl_event after) {
    if (after == nullptr) {
        submit_now(std::move(operation), CL_COMPLETE);
        return;
    }
    flush_producer(after);
    transport_.progress_thread().start_when_ready(command_of(std::move(operation), std::make_unique<Bridge>(after)),
                                                  {nullptr, true, polls_});
}

void Executor::submit_now(std::unique_ptr<Operation> operation, cl_int status) {
    transport_.progress_thread().submit(
        command_of(std::move(operation)),
        status < 0 ? Status::failure(status, "a command that this command waits for failed") : Status{});
}

// A transfer that this process can't begin, for want of memory say, fails at both ends, and so does the command that it is
// for; the peer must not wait for it.
void Executor::start(const Transfer &transfer) {
    MemObject &object = *objects_[transfer.buffer];
    try {
        if (transfer.kind == Transfer::Kind::copy)
            start_copy(transfer, object);
        else if (object.is_image() || !transfer.pieces.empty())
            start_packed_message(transfer, object);
        else
            start_message(transfer, object);
    } catch (const Error &error) {
        log_error("cannot transfer {} bytes: {}: {}", transfer.end - transfer.begin, error.status().message,
                  code_text(error.status().code));
        const bool sends = transfer.kind == Transfer::Kind::send;
        const Direction direction = sends ? Direction::send : Direction::recv;
        if (!sends) poisoned_ = true;
        if (transfer.kind == Transfer::Kind::copy) return;
        DeviceRange nothing{nullptr, {}, 0, transfer.end - transfer.begin, nullptr, {}};
        transport_.progress_thread().submit(
            command_of(transport_.transfer(std::move(nothing), direction, transfer.message, link(transfer, direction))),
            error.status());
    }
}

Executor::ChannelEnd Executor::make_end(const Transfer &transfer, MemObject &object, Direction direction) {
    const bool sends = direction == Direction::send;
    Space &space = *object.context->space(sends ? transfer.source : transfer.target);
    const std::size_t size = transfer.end - transfer.begin;
    const std::shared_ptr<DeviceResources> &resources = space.resources();
    const QueueInfo &queue = space.transfer_queue();
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, space, waits);

    DeviceRange range{resources, Mem::share(object.native(space)), transfer.begin, size, nullptr, {}};
    std::vector<Mapping> mappings;
    if (plan_mapping(resources->host_memory(), size, link(transfer, direction).advice_here(), config()))
        mappings.push_back(
            {range.buffer.get(), range.offset, size, static_cast<cl_map_flags>(sends ? CL_MAP_READ : CL_MAP_WRITE)});
    const bool lasts = find_lasting(queue, mappings);
    // PoCL 3.1 tells mappings apart by their addresses alone: the program's unmapping could end this one before it is made.
    if (!lasts && object.is_mapped_natively()) mappings.clear();
    auto bridge = lasts || mappings.empty() ? std::make_unique<Bridge>(queue.context, start_behind(queue, waits))
                                            : std::make_unique<Bridge>(queue, waits, mappings);
    if (!mappings.empty()) range.mapped = static_cast<std::byte *>(mappings.front().memory);
    return {std::move(range), std::move(bridge), queue.device, {nullptr, !waits.empty(), !resources->is_cpu()}};
}

void Executor::start_message(const Transfer &transfer, MemObject &object) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    const Direction direction = sends ? Direction::send : Direction::recv;
    ChannelEnd end = make_end(transfer, object, direction);
    steps_.add(transfer.step, *object.context->space(sends ? transfer.source : transfer.target),
               Event::share(end.bridge->user_visible_event()), {transfer.after});
    start_channel(std::move(end), direction, transfer.message, link(transfer, direction));
}

namespace {

std::shared_ptr<std::byte[]> memory_for_copies(Space &space, std::size_t size) {
    const DeviceResources &resources = *space.resources();
    auto memory = HostCopies::possible(!resources.host_memory()) ? HostCopies::page_locked(resources, size) : nullptr;
    return memory != nullptr ? memory : own_memory(size);
}

// Pieces of equal length at equal distances, within a pitch: as a box of rows.
struct Rows {
    std::size_t begin;  // bytes
    std::size_t length;
    std::size_t pitch;
    std::size_t count;
};

std::vector<Rows> rows_of(std::span<const Piece> pieces) {
    std::vector<Rows> all;
    for (std::size_t i = 0; i < pieces.size(); i += all.back().count) {
        const std::size_t begin = pieces[i].begin;
        const std::size_t length = pieces[i].end - begin;
        const std::size_t pitch = i + 1 < pieces.size() ? pieces[i + 1].begin - begin : 0;
        std::size_t rows = 1;
        while (i + rows < pieces.size() && pieces[i + rows].begin == begin + rows * pitch &&
               pieces[i + rows].end == pieces[i + rows].begin + length)
            ++rows;
        all.push_back({begin, length, pitch, rows > 1 && begin % pitch + length <= pitch ? rows : 1});
    }
    return all;
}

cl_int copy_rows(cl_command_queue queue, cl_mem buffer, const Rows &rows, std::byte *memory, bool reads,
                 std::span<const cl_event> waits, cl_event *event) {
    const auto count = static_cast<cl_uint>(waits.size());
    const cl_event *const before = waits.empty() ? nullptr : waits.data();
    if (rows.count == 1)
        return reads
                   ? clEnqueueReadBuffer(queue, buffer, CL_FALSE, rows.begin, rows.length, memory, count, before, event)
                   : clEnqueueWriteBuffer(queue, buffer, CL_FALSE, rows.begin, rows.length, memory, count, before,
                                          event);
    const std::array<std::size_t, 3> origin{rows.begin % rows.pitch, rows.begin / rows.pitch, 0};
    const std::array<std::size_t, 3> region{rows.length, rows.count, 1};
    return reads ? clEnqueueReadBufferRect(queue, buffer, CL_FALSE, origin.data(), no_offset.data(), region.data(),
                                           rows.pitch, 0, rows.length, 0, memory, count, before, event)
                 : clEnqueueWriteBufferRect(queue, buffer, CL_FALSE, origin.data(), no_offset.data(), region.data(),
                                            rows.pitch, 0, rows.length, 0, memory, count, before, event);
}

// NVIDIA's driver (580) takes about a thousand commands that wait; then enqueueing blocks. So many pieces are a kernel's and one
// copy's there.
constexpr std::size_t most_copies = 8;

std::vector<Event> copy_by_kernel(Space &space, cl_command_queue queue, cl_mem buffer, std::span<const Piece> pieces,
                                  std::byte *memory, bool reads, std::span<const cl_event> waits) {
    PieceKernels &kernels = space.piece_kernels();
    std::vector<PieceCopy> copies;
    std::size_t size = 0;
    for (const Piece &piece : pieces) {
        copies.push_back({piece.begin, size, piece.end - piece.begin});
        size += piece.end - piece.begin;
    }
    cl_int code = CL_SUCCESS;
    const Mem packed = Mem::adopt(clCreateBuffer(space.context.get(), CL_MEM_READ_WRITE, size, nullptr, &code));
    check(code, "clCreateBuffer");
    const auto copy = [&](std::span<const cl_event> behind, cl_event *event) {
        return copy_rows(queue, packed.get(), {0, size, 0, 1}, memory, reads, behind, event);
    };
    std::vector<Event> events(2);
    check(reads ? kernels.enqueue_gather(queue, buffer, packed.get(), copies, waits, events[0].out())
                : copy(waits, events[0].out()),
          "copying pieces");
    const cl_event first = events[0].get();
    check(reads ? copy({&first, 1}, events[1].out())
                : kernels.enqueue_scatter(queue, buffer, packed.get(), copies, {&first, 1}, events[1].out()),
          "copying pieces");
    return events;
}

// Enqueues the copies between pieces of a buffer and host memory, where they stand side by side. The last event is that of all.
std::vector<Event> copy_pieces(Space &space, const QueueInfo &info, cl_mem buffer, std::span<const Piece> pieces,
                               std::byte *memory, bool reads, std::span<const cl_event> waits) {
    const std::vector<Rows> all = rows_of(pieces);
    if (all.size() > most_copies && !space.resources()->host_memory() && space.piece_kernels().may_use(buffer, reads))
        return copy_by_kernel(space, info.queue, buffer, pieces, memory, reads, waits);
    std::vector<Event> copied;
    for (const Rows &rows : all) {
        copied.emplace_back();
        check(copy_rows(info.queue, buffer, rows, memory, reads, waits, copied.back().out()), "copying pieces");
        memory += rows.count * rows.length;
    }
    if (copied.size() == 1) return copied;
    std::vector<cl_event> together;
    for (const Event &each : copied) together.push_back(each.get());
    return enqueue_start(info, together, {}).events;
}

std::size_t bytes_of(const Transfer &transfer) {
    if (transfer.pieces.empty()) return transfer.end - transfer.begin;
    std::size_t size = 0;
    for (const Piece &piece : transfer.pieces) size += piece.end - piece.begin;
    return size;
}

}  // namespace

// Between an object and host memory, where the transfer's pieces of a buffer stand side by side, or an image's bytes.
Event Executor::copy_packed(const Transfer &transfer, MemObject &object, Space &space,
                            const std::shared_ptr<const QueueInfo> &queue, const std::shared_ptr<std::byte[]> &memory,
                            bool reads, std::span<const cl_event> waits) {
    std::vector<Event> events(1);
    if (object.is_image()) {
        const auto extent = extents(object.desc);
        const auto count = static_cast<cl_uint>(waits.size());
        const cl_event *const before = waits.empty() ? nullptr : waits.data();
        check(reads ? clEnqueueReadImage(queue->queue, object.native(space), CL_FALSE, no_offset.data(), extent.data(),
                                         0, 0, memory.get(), count, before, events.front().out())
                    : clEnqueueWriteImage(queue->queue, object.native(space), CL_FALSE, no_offset.data(), extent.data(),
                                          0, 0, memory.get(), count, before, events.front().out()),
              "copying an image");
    } else {
        const Piece whole{transfer.begin, transfer.end};
        const std::span<const Piece> pieces =
            transfer.pieces.empty() ? std::span<const Piece>(&whole, 1) : transfer.pieces;
        events = copy_pieces(space, *queue, object.native(space), pieces, memory.get(), reads, waits);
    }
    clFlush(queue->queue);
    Event copied = std::move(events.back());
    events.pop_back();
    keep_until(copied.get(), queue);
    keep_until(copied.get(), memory);
    if (!events.empty()) keep_until(copied.get(), std::make_shared<const std::vector<Event>>(std::move(events)));
    return copied;
}

// Through host memory. An image travels as its bytes there: NVIDIA's driver has no copies between buffers and arrays of 1D
// images.
void Executor::start_packed_message(const Transfer &transfer, MemObject &object) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    Space &space = *object.context->space(sends ? transfer.source : transfer.target);
    const std::size_t size = bytes_of(transfer);
    const std::shared_ptr<const QueueInfo> queue = space.queue_of_transfer();
    const std::shared_ptr<std::byte[]> memory = memory_for_copies(space, size);
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, space, waits);

    std::unique_ptr<Bridge> bridge;
    if (!sends) {
        bridge = std::make_unique<Bridge>(queue->context);
        waits.push_back(bridge->user_visible_event());
    }
    Event copied = copy_packed(transfer, object, space, queue, memory, sends, waits);
    if (sends) {
        const cl_event after = copied.get();
        bridge = std::make_unique<Bridge>(queue->context, start_behind(*queue, {&after, 1}));
    }
    steps_.add(transfer.step, space, std::move(copied), {transfer.after});
    // Also where the copy has failed before the message has come.
    keep_until(bridge->user_visible_event(), memory);
    const Direction direction = sends ? Direction::send : Direction::recv;
    start_channel({{nullptr, {}, 0, size, memory.get(), {}},
                   std::move(bridge),
                   queue->device,
                   {nullptr, sends, !space.resources()->is_cpu()}},
                  direction, transfer.message, link(transfer, direction));
}

void Executor::start_channel(ChannelEnd end, Direction direction, const Message &message, const Link &link) {
    const bool starts_now = end.bridge->start().gate == nullptr;
    auto command = command_of(transport_.transfer(std::move(end.range), direction, message, link),
                              std::move(end.bridge), end.device);
    if (starts_now)
        transport_.progress_thread().submit(std::move(command), {});
    else
        transport_.progress_thread().start_when_ready(std::move(command), end.rule);
}

// Between two memories of this process: a message to itself, or, of an image or of pieces, through host memory.
void Executor::start_copy(const Transfer &transfer, MemObject &object) {
    if (object.is_image() || !transfer.pieces.empty() || !transport_.reaches_itself()) {
        start_staged_copy(transfer, object);
        return;
    }
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    ChannelEnd from = make_end(transfer, object, Direction::send);
    ChannelEnd to = make_end(transfer, object, Direction::recv);
    const Message message{self_, copies_between_++};
    steps_.add(transfer.step, source, Event::share(from.bridge->user_visible_event()), {transfer.after});
    steps_.add(transfer.step, target, Event::share(to.bridge->user_visible_event()), {transfer.after});
    start_channel(std::move(from), Direction::send, message, link(transfer, Direction::send));
    start_channel(std::move(to), Direction::recv, message, link(transfer, Direction::recv));
}

// By native commands.
void Executor::start_staged_copy(const Transfer &transfer, MemObject &object) {
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    const std::shared_ptr<std::byte[]> memory = memory_for_copies(source, bytes_of(transfer));
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, source, waits);
    Event read = copy_packed(transfer, object, source, source.queue_of_transfer(), memory, true, waits);

    cl_int code = CL_SUCCESS;
    Event arrived = Event::adopt(clCreateUserEvent(target.context.get(), &code));
    check(code, "clCreateUserEvent");
    auto ending = std::make_shared<Ending>();
    waits.clear();
    steps_.add_waits(transfer.after, target, waits);
    waits.push_back(arrived.get());
    Event written = copy_packed(transfer, object, target, target.queue_of_transfer(), memory, false, waits);
    end_alike(*ending, arrived.get());
    end_with(read.get(), std::move(ending));
    steps_.add(transfer.step, source, std::move(read), {transfer.after});
    steps_.add(transfer.step, target, std::move(written), {transfer.after});
}

void Executor::finish_all() {
    for (const MemObject *const object : objects_)
        if (object != nullptr) warn_of_unseen(*object);
    for (const Event &rest : steps_.rest()) {
        const cl_event event = rest.get();
        flush_producer(event);
        clWaitForEvents(1, &event);
    }
    transport_.progress_thread().wait_idle(0);
    for (unsigned open = finishing_; open != 0; open = finishing_) finishing_.wait(open);
    transport_.progress_thread().wait_idle(0);
    if (ProgressThread *const progress_thread = find_file_progress_thread()) progress_thread->wait_idle(0);
}

}  // namespace cldist::cluster
