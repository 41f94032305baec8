#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/event_table.hpp"
#include "api/peer.hpp"
#include "api/starting.hpp"
#include "base/trace.hpp"
#include "events/host_addresses.hpp"
#include "mpi_interop/message_operations.hpp"
#include "mpi_interop/small_message.hpp"
#include "ocl/query.hpp"
#include "pipeline/plan.hpp"

using namespace cldist;

namespace {

// One message of a command.
struct Part {
    RangeArgument range;
    PeerArgument peer;
};

// A checked call.
struct Call {
    CommandArguments command;
    QueueInfo queue;
    std::span<const Part> parts;
    std::shared_ptr<const Communicator> comm;
    std::shared_ptr<DeviceResources> resources;
    std::shared_ptr<Runtime> runtime;
};

using Operations = std::vector<std::unique_ptr<Operation>>;

bool may_map(const Call &call, const Part &part) {
    const int rank = part.peer.rank;
    const Advice *const advice = rank < 0 ? nullptr : call.resources->advice(message_route(call.comm->same_host(rank)));
    return rank != MPI_PROC_NULL && may_map(part.range, *call.resources, advice);
}

// Returns true if the queue should copy the range to or from memory of the library. Waiting commands may use as much of
// this memory as is kept when unused.
bool may_copy(const Call &call, const Part &part) {
    const RangeArgument &range = part.range;
    const DeviceResources &resources = *call.resources;
    if (part.peer.rank == MPI_PROC_NULL || range.strided) return false;
    const bool same_host = part.peer.rank >= 0 && call.comm->same_host(part.peer.rank);
    const bool ring = same_host && call.comm->wire() == Wire::cldist &&
                      call.comm->links().reach(call.comm->world_rank(part.peer.rank));
    if (!plan_copying(resources.host_memory(), same_host, ring, range.size, resources.advice(message_route(same_host)),
                      config()))
        return false;
    // If a message is shorter than its receive, the rest is read from the buffer.
    if (range.direction == Direction::recv &&
        (query<cl_mem_flags>(range.buffer, CL_MEM_FLAGS).value_or(CL_MEM_HOST_WRITE_ONLY) & CL_MEM_HOST_WRITE_ONLY) !=
            0)
        return false;
    return resources.staging().bytes_lent() + range.size <= config().staging_keep.value;
}

// The mappings of a command's parts, for parts that need one.
class Mappings {
public:
    /// Ranges of at most `copied` bytes get no mapping, except strided ranges, which the host packs.
    Mappings(const Call &call, std::size_t copied) {
        for (const Part &part : call.parts) {
            if (!may_map(call, part)) continue;
            if (part.range.size <= copied && !part.range.strided) continue;
            const bool send = part.range.direction == Direction::send;
            // Not CL_MAP_WRITE_INVALIDATE_REGION, because a message may be shorter than its receive.
            all_.push_back({part.range.buffer, part.range.offset, part.range.extent(),
                            static_cast<cl_map_flags>(send ? CL_MAP_READ : CL_MAP_WRITE)});
            parts_.push_back(&part);
        }
    }

    /// For parts without mapping, adds copies to memory of the library.
    void add_copies(const Call &call) {
        for (const Part &part : call.parts) {
            if (std::find(parts_.begin(), parts_.end(), &part) != parts_.end() || !may_copy(call, part)) continue;
            const auto [buffer, offset] = held(part.range, *call.resources);
            const bool send = part.range.direction == Direction::send;
            all_.push_back({buffer, offset, part.range.size,
                            static_cast<cl_map_flags>(send ? CL_MAP_READ : CL_MAP_WRITE), nullptr,
                            memory_behind_header(*call.resources, part.range.size)});
            parts_.push_back(&part);
        }
    }

    [[nodiscard]] std::span<Mapping> all() { return all_; }
    /// Null if the part has no mapping, or if the platform refused it.
    [[nodiscard]] const Mapping *of(const Part &part) const {
        const auto at = std::find(parts_.begin(), parts_.end(), &part);
        if (at == parts_.end()) return nullptr;
        const Mapping &mapping = all_[static_cast<std::size_t>(at - parts_.begin())];
        return mapping.memory != nullptr ? &mapping : nullptr;
    }

private:
    std::vector<Mapping> all_;
    std::vector<const Part *> parts_;
};

MessagePeer peer_of(const Call &call, const Part &part) { return {call.comm, part.peer.rank, part.peer.tag}; }

// `caller_queue` is as in DeviceRange. `found` is the message of the only receive, if it was already matched.
Operations make_operations(const Call &call, const Mappings &mappings, MessageDriver &driver,
                           cl_command_queue caller_queue, const std::optional<MatchedMessage> &found = {}) {
    Operations operations;
    for (const Part &part : call.parts) {
        const auto [buffer, offset] = held(part.range, *call.resources);
        const Mapping *const mapping = mappings.of(part);
        DeviceRange range{call.resources,
                          Mem::share(buffer),
                          offset,
                          part.range.size,
                          mapping != nullptr ? static_cast<std::byte *>(mapping->memory) : nullptr,
                          Queue::share(caller_queue),
                          part.range.strided,
                          mapping != nullptr && mapping->staging != nullptr};
        operations.push_back(part.range.direction == Direction::send
                                 ? make_send(std::move(range), peer_of(call, part), driver, call.runtime->channels())
                                 : make_recv(std::move(range), peer_of(call, part), driver, found));
    }
    return operations;
}

// Records that the stall report prints while a command waits for its turn.
std::vector<std::shared_ptr<Record>> records_of(const Call &call) {
    std::vector<std::shared_ptr<Record>> records;
    for (const Part &part : call.parts)
        records.push_back(make_record(part.range.direction, part.range.size, peer_of(call, part)));
    return records;
}

bool wait_at_gate(const Call &call, const Start &start) { return wait_for_start(start, records_of(call)); }

// Handles a command whose peers are all MPI_PROC_NULL. It only needs its position in the queue.
void enqueue_nothing(const Call &call) {
    // Without wait list and event the program can't see a difference.
    if (call.command.blocking == CL_FALSE && call.command.num_events == 0 && call.command.event == nullptr) return;
    if (call.command.blocking != CL_FALSE) check_not_failed(call.command);
    Start start = enqueue_start(call.queue, call.command.events(), {});
    if (call.command.blocking != CL_FALSE && !wait_at_gate(call, start)) {
        call.runtime->progress_thread().keep_remains(nullptr, std::move(start.events));
        throw failed_wait();
    }
    if (call.command.event == nullptr) return;
    Operations operations = make_operations(call, Mappings(call, 0), call.runtime->progress_driver(), nullptr);
    event_table().add(start.gate, operations);
    Command command(std::move(operations), nullptr, call.queue.device);
    command.start({});
    command.poll();
    *call.command.event = start.events.back().give();
}

void enqueue(const Call &call) {
    Mappings mappings(call, 0);
    mappings.add_copies(call);
    const std::lock_guard lock(enqueueing_on(call.queue.queue));
    auto bridge = std::make_unique<Bridge>(call.queue, call.command.events(), mappings.all());
    Event event = Event::share(bridge->user_visible_event());
    Operations operations = make_operations(call, mappings, call.runtime->progress_driver(), nullptr);
    if (call.command.event != nullptr) event_table().add(event.get(), operations);
    auto command = std::make_unique<Command>(std::move(operations), std::move(bridge), call.queue.device);
    call.runtime->progress_thread().start_when_ready(
        std::move(command),
        {ordered_by(call.queue, call.command), call.command.num_events != 0, !call.resources->is_cpu()});
    if (call.command.event != nullptr) *call.command.event = event.give();
}

// The wait list failed. The progress thread sends the far end an error message.
[[noreturn]] void fail_at_gate(const Call &call, const Mappings &mappings, std::unique_ptr<Bridge> bridge) {
    const Error error = failed_wait();
    Operations operations = make_operations(call, mappings, call.runtime->progress_driver(), nullptr);
    auto command = std::make_unique<Command>(std::move(operations), std::move(bridge), call.queue.device);
    command->announce_failure(error.status());
    call.runtime->progress_thread().submit(std::move(command), error.status());
    throw error;
}

// Returns true if a blocking command must wait for its turn before its message may move. Otherwise its copies wait in
// the queue instead. The program can't see the difference if no other command of the library is in flight.
bool needs_gate(const Call &call) {
    return call.command.num_events != 0 || !call.runtime->progress_thread().idle() ||
           std::any_of(call.parts.begin(), call.parts.end(),
                       [](const Part &part) { return part.range.size == 0 || part.peer.rank == MPI_PROC_NULL; });
}

// Returns true if the message can take the fast path.
bool is_small(const Call &call) {
    const Part &part = call.parts.front();
    return call.queue.in_order && call.comm->wire() == Wire::cldist && call.parts.size() == 1 && !part.range.strided &&
           part.range.size <= largest_small && config().path == Path::automatic && !trace::enabled() &&
           !needs_gate(call);
}

SmallMessage small_message(const Call &call) {
    const Part &part = call.parts.front();
    const RangeArgument &range = part.range;
    SmallMessage message{call.queue.queue, range.buffer, range.offset, range.size, peer_of(call, part), nullptr};
    if (call.queue.addresses_last) {
        const cl_map_flags flags = range.direction == Direction::send ? CL_MAP_READ : CL_MAP_WRITE;
        std::byte *const first = host_addresses().find_or_map(call.queue.queue, range.buffer, flags);
        if (first != nullptr) message.address = first + range.offset;
    }
    return message;
}

// The calling thread drives the command and the user's queue makes the copies. No other thread is used.
void run_without_event(const Call &call) {
    const bool receives = call.parts.back().range.direction == Direction::recv;
    std::optional<MatchedMessage> found;
    if (is_small(call)) {
        const SmallMessage message = small_message(call);
        if (const Status status = receives ? recv_small(message, found) : send_small(message); !status.ok())
            throw Error(status);
        if (!found) return;
    }
    // A read of a small range takes one command. Mapping and unmapping take two.
    Mappings mappings(call, largest_copied(call.resources->host_memory(), config()));
    const bool gated = needs_gate(call);
    if (!gated && call.queue.in_order && !mappings.all().empty() && find_lasting(call.queue, mappings.all())) {
        check(finish_named(call.queue.queue, records_of(call)), "clFinish");
    } else if (gated || !mappings.all().empty()) {
        Start start = enqueue_start(call.queue, call.command.events(), mappings.all());
        if (!wait_at_gate(call, start)) {
            call.runtime->progress_thread().keep_remains(nullptr, std::move(start.events));
            fail_at_gate(call, mappings, nullptr);
        }
    }
    Command command(make_operations(call, mappings, caller_driver(), call.queue.queue, found), nullptr,
                    call.queue.device);
    command.start({});
    drive(command, caller_driver());
    end_mappings(call.queue, mappings.all(), receives);
    if (!command.status().ok()) throw Error(command.status());
}

void run_with_event(const Call &call) {
    Mappings mappings(call, 0);
    mappings.add_copies(call);
    std::unique_lock lock(enqueueing_on(call.queue.queue));
    auto bridge = std::make_unique<Bridge>(call.queue, call.command.events(), mappings.all());
    Event event = Event::share(bridge->user_visible_event());
    lock.unlock();
    if (!wait_at_gate(call, bridge->start())) fail_at_gate(call, mappings, std::move(bridge));
    Operations operations = make_operations(call, mappings, caller_driver(), nullptr);
    event_table().add(event.get(), operations);
    Command command(std::move(operations), std::move(bridge), call.queue.device);
    command.start({});
    drive(command, caller_driver());
    wait_for(event.get());
    if (auto failed = command.take_failed_bridge()) call.runtime->progress_thread().keep_remains(std::move(failed), {});
    *call.command.event = event.give();
    if (!command.status().ok()) throw Error(command.status());
}

QueueInfo check_parts(const CommandArguments &command, std::span<Part> parts) {
    std::array<RangeArgument, 2> ranges{};
    for (std::size_t i = 0; i < parts.size(); ++i) ranges.at(i) = parts[i].range;
    const QueueInfo queue = check_command(command, std::span(ranges).first(parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].range = ranges.at(i);
    return queue;
}

// Builds the kernels here. On the progress thread, the build would block all other transfers.
void prepare_kernels(const Call &call) {
    for (const Part &part : call.parts)
        if (part.range.strided && !may_map(call, part)) call.resources->rect_kernels();
}

void run(const CommandArguments &command, std::span<Part> parts, MPI_Comm comm) {
    Call call{command, check_parts(command, parts), parts, nullptr, nullptr, nullptr};
    call.runtime = Runtime::current();
    call.runtime->progress_thread()
        .note_failures();  // gives earlier failed commands their positions in the message order
    call.comm = call.runtime->communicators().find(comm);
    for (const Part &part : parts) check_peer(part.peer, part.range.direction, *call.comm, call.runtime->max_tag());
    call.resources = resources_of(call.queue, {std::array{parts.front().range.buffer, parts.back().range.buffer}});
    prepare_kernels(call);

    if (std::all_of(parts.begin(), parts.end(), [](const Part &part) { return part.peer.rank == MPI_PROC_NULL; })) {
        enqueue_nothing(call);
        return;
    }
    if (command.blocking == CL_FALSE) {
        enqueue(call);
        return;
    }
    if (first_failure(command.events()) < 0) fail_at_gate(call, Mappings(call, 0), nullptr);
    if (const cl_command_queue queue = ordered_by(call.queue, call.command); queue != nullptr && !call.queue.in_order)
        call.runtime->progress_thread().wait_started(queue);
    if (command.event == nullptr)
        run_without_event(call);
    else
        run_with_event(call);
}

}  // namespace

extern "C" {

cl_int clEnqueueSendBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                           int dest, int tag, MPI_Comm comm, cl_uint num_events_in_wait_list,
                           const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueSendBuffer", [&] {
        std::array parts{Part{{buffer, offset, size, Direction::send}, {dest, tag}}};
        run({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, parts, comm);
    });
}

cl_int clEnqueueRecvBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                           int source, int tag, MPI_Comm comm, cl_uint num_events_in_wait_list,
                           const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueRecvBuffer", [&] {
        std::array parts{Part{{buffer, offset, size, Direction::recv}, {source, tag}}};
        run({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, parts, comm);
    });
}

cl_int clEnqueueSendrecvBuffer(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking, size_t send_offset,
                               size_t send_size, int dest, int send_tag, cl_mem recv_buffer, size_t recv_offset,
                               size_t recv_size, int source, int recv_tag, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueSendrecvBuffer", [&] {
        std::array parts{Part{{send_buffer, send_offset, send_size, Direction::send}, {dest, send_tag}},
                         Part{{recv_buffer, recv_offset, recv_size, Direction::recv}, {source, recv_tag}}};
        run({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, parts, comm);
    });
}

cl_int clEnqueueSendBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, const size_t origin[3],
                               const size_t region[3], size_t row_pitch, size_t slice_pitch, int dest, int tag,
                               MPI_Comm comm, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event) {
    return at_boundary("clEnqueueSendBufferRect", [&] {
        const RectArguments rect{origin, region, row_pitch, slice_pitch};
        std::array parts{Part{{buffer, 0, 0, Direction::send, rect}, {dest, tag}}};
        run({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, parts, comm);
    });
}

cl_int clEnqueueRecvBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking, const size_t origin[3],
                               const size_t region[3], size_t row_pitch, size_t slice_pitch, int source, int tag,
                               MPI_Comm comm, cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event) {
    return at_boundary("clEnqueueRecvBufferRect", [&] {
        const RectArguments rect{origin, region, row_pitch, slice_pitch};
        std::array parts{Part{{buffer, 0, 0, Direction::recv, rect}, {source, tag}}};
        run({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, parts, comm);
    });
}

cl_int clEnqueueSendrecvBufferRect(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                                   const size_t send_origin[3], const size_t send_region[3], size_t send_row_pitch,
                                   size_t send_slice_pitch, int dest, int send_tag, cl_mem recv_buffer,
                                   const size_t recv_origin[3], const size_t recv_region[3], size_t recv_row_pitch,
                                   size_t recv_slice_pitch, int source, int recv_tag, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueSendrecvBufferRect", [&] {
        const RectArguments send{send_origin, send_region, send_row_pitch, send_slice_pitch};
        const RectArguments recv{recv_origin, recv_region, recv_row_pitch, recv_slice_pitch};
        std::array parts{Part{{send_buffer, 0, 0, Direction::send, send}, {dest, send_tag}},
                         Part{{recv_buffer, 0, 0, Direction::recv, recv}, {source, recv_tag}}};
        run({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, parts, comm);
    });
}

}  // extern "C"
