#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/event_table.hpp"
#include "api/kernel_waits.hpp"
#include "api/peer.hpp"
#include "api/run_command.hpp"
#include "api/starting.hpp"
#include "base/clock.hpp"
#include "base/trace.hpp"
#include "events/failure.hpp"
#include "events/host_addresses.hpp"
#include "mpi_interop/message_operations.hpp"
#include "mpi_interop/ordered_command.hpp"
#include "mpi_interop/small_message.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/plan.hpp"

using namespace cldist;

namespace {

// One message of a command.
struct Part {
    RangeArgument range;
    PeerArgument peer;
};

QueueInfo check_parts(const CommandArguments &command, std::span<Part> parts) {
    std::array<RangeArgument, 2> ranges{};
    for (std::size_t i = 0; i < parts.size(); ++i) ranges.at(i) = parts[i].range;
    const QueueInfo queue = check_command(command, std::span(ranges).first(parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].range = ranges.at(i);
    return queue;
}

class MessageCall final : public CheckedCall {
public:
    MessageCall(const CommandArguments &command, std::span<Part> parts, MPI_Comm comm)
        : parts_(parts) {
        arguments = command;
        queue = check_parts(command, parts);
        runtime_ = Runtime::current();
        // Earlier failed commands take their positions in the message order first.
        runtime_->progress_thread().note_failures();
        comm_ = runtime_->communicators().find(comm);
        for (const Part &part : parts) check_rank(part.peer, part.range.direction, *comm_);
        for (const Part &part : parts)
            check_tag(part.peer, part.range.direction, runtime_->max_tag());
        resources = resources_of(
            queue, {std::array{parts.front().range.buffer, parts.back().range.buffer}});
        // Builds the kernels here, because a build on the progress thread would block other
        // transfers.
        for (const Part &part : parts)
            if (part.range.strided && !may_map_part(part)) resources->rect_kernels();
    }

    void run() {
        if (may_use_kernels() && (run_ordered() || run_by_kernel())) return;
        const auto no_peer = [](const Part &part) { return part.peer.rank == MPI_PROC_NULL; };
        // Without peers, the command's only effect is its position in the queue, which the program
        // can observe only by a wait list or an event.
        if (arguments.blocking == CL_FALSE && arguments.num_events == 0 &&
            arguments.event == nullptr && std::all_of(parts_.begin(), parts_.end(), no_peer))
            return;
        if (is_small() && run_small()) return;
        if (const Status status = run_command(*this); !status.ok()) throw Error(status);
    }

    [[nodiscard]] ProgressThread &progress_thread() const override {
        return runtime_->progress_thread();
    }
    std::span<Mapping> make_mappings(Drives driver) override;
    [[nodiscard]] Operations make_operations(Drives driver) const override;

    void drive_here(Command &command, const Status &gate) const override {
        command.start(gate);
        drive(command, caller_driver());
    }

    // If no other command of the library is in flight, the copies wait in the queue instead, which
    // the program can't distinguish.
    [[nodiscard]] bool needs_gate(bool /*has_mappings*/) const override {
        return arguments.num_events != 0 || !progress_thread().idle() ||
               std::any_of(parts_.begin(), parts_.end(), [](const Part &part) {
                   return part.range.size == 0 || part.peer.rank == MPI_PROC_NULL;
               });
    }

    // The peer of a failed receive may send its message late.
    [[nodiscard]] bool leaves_failures() const override { return true; }
    [[nodiscard]] bool writes() const override {
        return parts_.back().range.direction == Direction::recv;
    }

private:
    [[nodiscard]] bool may_map_part(const Part &part) const;
    [[nodiscard]] bool may_copy(const Part &part) const;
    [[nodiscard]] const Mapping *mapping_of(const Part &part) const;
    [[nodiscard]] MessagePeer peer_of(const Part &part) const {
        return {comm_, part.peer.rank, part.peer.tag};
    }
    [[nodiscard]] std::span<const Part> parts_with_peer() const;
    [[nodiscard]] bool may_use_kernels() const;
    [[nodiscard]] std::unique_ptr<OrderedCommand> reserve(const Part &part,
                                                          OrderedCommand::Position position) const;
    [[nodiscard]] DeviceRange range_of(const Part &part) const;
    [[nodiscard]] SlotMove move_of(const Part &part, const OrderedCommand &kernel) const;
    bool run_by_kernel();
    [[nodiscard]] bool may_order() const;
    bool run_ordered();
    void enqueue_ordered(std::vector<std::unique_ptr<OrderedCommand>> &reserved);
    std::optional<MatchedMessage> find_ordered(const Part &part, OrderedCommand &ordered,
                                               std::uint64_t patience_ns) const;
    [[nodiscard]] bool is_small() const;
    bool run_small();

    const std::span<const Part> parts_;
    std::shared_ptr<Runtime> runtime_;
    std::shared_ptr<const Communicator> comm_;
    std::vector<Mapping> mappings_;
    std::vector<const Part *> mapped_;  ///< the part of each mapping
    /// The message of the only receive, if it was already matched.
    std::optional<MatchedMessage> found_;
};

bool MessageCall::may_map_part(const Part &part) const {
    const int rank = part.peer.rank;
    const Advice *const advice =
        rank < 0 ? nullptr : resources->advice(message_route(comm_->same_host(rank)));
    return rank != MPI_PROC_NULL && may_map(part.range, *resources, advice);
}

// Returns true if the queue should copy the range to or from memory of the library. Such memory of
// pending commands is limited to the amount that the pool keeps when it is unused.
bool MessageCall::may_copy(const Part &part) const {
    const RangeArgument &range = part.range;
    if (part.peer.rank == MPI_PROC_NULL || range.strided) return false;
    const bool same_host = part.peer.rank >= 0 && comm_->same_host(part.peer.rank);
    const bool ring = same_host && comm_->wire() == Wire::cldist &&
                      comm_->links().reach(comm_->world_rank(part.peer.rank));
    if (!plan_copying(resources->host_memory(), same_host, ring, range.size,
                      resources->advice(message_route(same_host)), config()))
        return false;
    // If a message is shorter than its receive, the host reads the rest from the buffer.
    if (range.direction == Direction::recv &&
        (query<cl_mem_flags>(range.buffer, CL_MEM_FLAGS).value_or(CL_MEM_HOST_WRITE_ONLY) &
         CL_MEM_HOST_WRITE_ONLY) != 0)
        return false;
    return resources->staging().bytes_lent() + range.size <= config().staging_keep.value;
}

// Chooses for each part a mapping, a copy through memory of the library, or neither.
std::span<Mapping> MessageCall::make_mappings(Drives driver) {
    const bool in_queue = driver == Drives::caller_in_queue;
    // Reading a small range takes one command, mapping and unmapping two. The host packs strided
    // ranges.
    const std::size_t copied = in_queue ? largest_copied(resources->host_memory(), config()) : 0;
    const auto flags_of = [](const RangeArgument &range) -> cl_map_flags {
        // Not CL_MAP_WRITE_INVALIDATE_REGION, because a message may be shorter than its receive.
        return range.direction == Direction::send ? CL_MAP_READ : CL_MAP_WRITE;
    };
    for (const Part &part : parts_) {
        const RangeArgument &range = part.range;
        if (!may_map_part(part) || (range.size <= copied && !range.strided)) continue;
        mappings_.push_back({range.buffer, range.offset, range.extent(), flags_of(range)});
        mapped_.push_back(&part);
    }
    for (const Part &part : parts_) {
        if (in_queue || std::find(mapped_.begin(), mapped_.end(), &part) != mapped_.end() ||
            !may_copy(part))
            continue;
        // A non-blocking call must not wait for the platform, because a callback may make it.
        const std::shared_ptr<std::byte> memory =
            memory_after_header(*resources, part.range.size, driver != Drives::progress_thread);
        if (memory == nullptr) continue;
        const auto [buffer, offset] = held(part.range, *resources);
        mappings_.push_back(
            {buffer, offset, part.range.size, flags_of(part.range), nullptr, memory});
        mapped_.push_back(&part);
    }
    return mappings_;
}

// Returns null if the part has no mapping or the platform refused it.
const Mapping *MessageCall::mapping_of(const Part &part) const {
    const auto at = std::find(mapped_.begin(), mapped_.end(), &part);
    if (at == mapped_.end()) return nullptr;
    const Mapping &mapping = mappings_[static_cast<std::size_t>(at - mapped_.begin())];
    return mapping.memory != nullptr ? &mapping : nullptr;
}

Operations MessageCall::make_operations(Drives drives) const {
    MessageDriver &driver =
        drives == Drives::progress_thread ? runtime_->progress_driver() : caller_driver();
    const cl_command_queue copying = drives == Drives::caller_in_queue ? queue.queue : nullptr;
    Operations operations;
    for (const Part &part : parts_) {
        const auto [buffer, offset] = held(part.range, *resources);
        const Mapping *const mapping = mapping_of(part);
        DeviceRange range{resources,
                          Mem::share(buffer),
                          offset,
                          part.range.size,
                          mapping != nullptr ? static_cast<std::byte *>(mapping->memory) : nullptr,
                          Queue::share(copying),
                          part.range.strided,
                          mapping != nullptr && mapping->staging != nullptr};
        operations.push_back(
            part.range.direction == Direction::send
                ? make_send(std::move(range), peer_of(part), driver, runtime_->channels())
                : make_recv(std::move(range), peer_of(part), driver, found_));
    }
    return operations;
}

// The parts whose peer is not MPI_PROC_NULL.
std::span<const Part> MessageCall::parts_with_peer() const {
    std::span<const Part> parts = parts_;
    if (parts.front().peer.rank == MPI_PROC_NULL) parts = parts.subspan(1);
    if (!parts.empty() && parts.back().peer.rank == MPI_PROC_NULL)
        parts = parts.first(parts.size() - 1);
    return parts;
}

// Returns true if kernels move a message of the range where they can.
bool wants_kernels(const RangeArgument &range) {
    return range.size != 0 && range.size <= DeviceLinks::most_bytes &&
           uses_kernels(config().path, range.size) &&
           (requests_kernels(config().path) || is_safe_in_kernels(range.buffer));
}

// Returns true if kernels can move the messages.
bool MessageCall::may_use_kernels() const {
    if (arguments.blocking != CL_FALSE || !queue.in_order || comm_->wire() != Wire::cldist)
        return false;
    const std::span<const Part> parts = parts_with_peer();
    const bool possible = std::all_of(parts.begin(), parts.end(), [&](const Part &part) {
        const int rank = part.peer.rank;
        const int world_rank = rank == MPI_ANY_SOURCE ? rank : comm_->world_rank(rank);
        return wants_kernels(part.range) && (rank == MPI_ANY_SOURCE || comm_->same_host(rank)) &&
               comm_->links().devices()->connected(world_rank, resources) &&
               open_to_kernels(part.range);
    });
    return possible && !parts.empty() &&
           (requests_kernels(config().path) || !comm_->links().devices()->avoids_kernels());
}

// Reserves the slot and the landing memory of a part's kernel. Returns null if none is free. In a
// chain of large messages, they soon become free.
std::unique_ptr<OrderedCommand> MessageCall::reserve(const Part &part,
                                                     OrderedCommand::Position position) const {
    const int rank = part.peer.rank;
    const int world_rank = rank < 0 ? rank : comm_->world_rank(rank);
    auto command = std::make_unique<OrderedCommand>(comm_->links().devices(), part.range.direction,
                                                    part.range.size, position);
    const std::uint64_t until = now_ns() + room_ns + part.range.size / 64;
    while (!command->reserve(world_rank, queue.queue)) {
        if (now_ns() >= until) return nullptr;
        std::this_thread::yield();
    }
    return command;
}

DeviceRange MessageCall::range_of(const Part &part) const {
    const auto [buffer, offset] = held(part.range, *resources);
    return {resources, Mem::share(buffer), offset, part.range.size, nullptr,
            {},        part.range.strided};
}

SlotMove MessageCall::move_of(const Part &part, const OrderedCommand &kernel) const {
    const auto [buffer, offset] = held(part.range, *resources);
    return kernel.move_of(buffer, offset, part.range.strided);
}

// Enqueues the command with one kernel per message, and returns true if that is possible. The
// command takes its position in the message order when it starts. The kernel of a receive starts
// when the bytes have arrived, or at least the sender's kernel runs.
bool MessageCall::run_by_kernel() {
    std::unique_ptr<OrderedCommand> sending, receiving;
    for (const Part &part : parts_with_peer()) {
        auto &kernel = part.range.direction == Direction::send ? sending : receiving;
        kernel = reserve(part, OrderedCommand::Position::at_start);
        if (kernel == nullptr) return false;
    }
    const Enqueueing lock(queue);
    const auto enqueue = [this](OrderedCommand &kernel, const Part &part,
                                std::span<const cl_event> wait_list) {
        Event event;
        kernel.enqueue(move_of(part, kernel), wait_list, event.out());
        return event;
    };
    EnqueueFirst first;
    EnqueueLast last;
    if (sending != nullptr)
        first = [&](std::span<const cl_event> wait_list) {
            if (sending->is_measured()) sending->measure(enqueue_stand_in(queue, wait_list).get());
            return std::pair(enqueue(*sending, parts_.front(), wait_list), sending->running());
        };
    if (receiving != nullptr)
        last = [&](cl_event arrived) { return enqueue(*receiving, parts_.back(), {&arrived, 1}); };
    auto bridge =
        std::make_unique<Bridge>(queue, arguments.events(), std::span<Mapping>(), first, last);
    MessageDriver &driver = runtime_->progress_driver();
    Operations operations;
    for (const Part &part : parts_)
        operations.push_back(
            part.range.direction == Direction::recv
                ? make_recv(range_of(part), peer_of(part), driver, {}, std::move(receiving))
                : make_send(range_of(part), peer_of(part), driver, runtime_->channels(), false,
                            std::move(sending)));
    start_when_ready(*this, std::move(operations), std::move(bridge));
    return true;
}

// Returns true if kernels may wait for the messages. See may_wait_in_kernel().
bool MessageCall::may_order() const {
    return config().path == Path::device && comm_->links().devices()->may_wait() &&
           may_wait_in_kernel(queue, arguments, comm_->handle());
}

// Path device: enqueues kernels that move the messages, and returns true if that is possible.
bool MessageCall::run_ordered() {
    if (!may_order()) return false;
    std::vector<std::unique_ptr<OrderedCommand>> reserved;
    for (const Part &part : parts_with_peer()) {
        reserved.push_back(reserve(part, OrderedCommand::Position::at_call));
        if (reserved.back() == nullptr) return false;
    }
    const Enqueueing lock(queue);
    // This command takes its position in the message order now, so earlier ones must have theirs.
    if (!progress_thread().positions_taken()) return false;
    try {
        enqueue_ordered(reserved);
    } catch (const std::exception &error) {
        end_job(error.what(), "because the other process may already wait for the message");
    }
    return true;
}

void MessageCall::enqueue_ordered(std::vector<std::unique_ptr<OrderedCommand>> &reserved) {
    Event event;
    cl_event *const wanted = arguments.event != nullptr ? event.out() : nullptr;
    Operations operations;
    std::span<const cl_event> wait_list = arguments.events();
    MessageDriver &driver = runtime_->progress_driver();
    const std::span<const Part> parts = parts_with_peer();
    const Part &first = parts.front(), &last = parts.back();
    const bool sends = first.range.direction == Direction::send;
    const bool receives = last.range.direction == Direction::recv;
    OrderedCommand &first_command = *reserved.front();
    OrderedCommand &last_command = *reserved.back();
    if (&first != &parts_.front())
        operations.push_back(make_send(range_of(parts_.front()), peer_of(parts_.front()), driver,
                                       runtime_->channels()));
    if (sends) {
        first_command.follow();
        operations.push_back(make_send(range_of(first), peer_of(first), driver,
                                       runtime_->channels(), false, std::move(reserved.front())));
        operations.back()->announce();
    }
    std::optional<MatchedMessage> found;
    if (receives && sends) found = find_ordered(last, last_command, 0);
    const bool both = sends && receives && last_command.granted();
    if (both)
        OrderedCommand::enqueue_both(first_command, last_command, move_of(first, first_command),
                                     move_of(last, last_command), wait_list, wanted);
    else if (sends)
        first_command.enqueue(move_of(first, first_command), std::exchange(wait_list, {}),
                              receives ? nullptr : wanted);
    if (receives) {
        last_command.follow();
        // If an earlier receive of the queue is held back, this process is ahead of the other one.
        if (!found)
            found = find_ordered(last, last_command, last_command.may_post() ? moment_ns : 0);
        if (!last_command.granted()) last_command.hold(queue, std::exchange(wait_list, {}));
        const bool announces = !found;
        operations.push_back(make_recv(range_of(last), peer_of(last), driver, std::move(found),
                                       std::move(reserved.back())));
        if (announces) operations.back()->announce();
        if (!both) last_command.enqueue(move_of(last, last_command), wait_list, wanted);
    }
    if (&last != &parts_.back())
        operations.push_back(make_recv(range_of(parts_.back()), peer_of(parts_.back()), driver));
    if (event) event_table().add(event.get(), operations);
    progress_thread().submit(
        std::make_unique<Command>(std::move(operations), nullptr, queue.device), {});
    if (event) *arguments.event = event.give();
}

// Takes the receive's message if it arrives within the time. If a kernel of the sender moves the
// bytes, lets the receive's kernel take them.
std::optional<MatchedMessage> MessageCall::find_ordered(const Part &part, OrderedCommand &ordered,
                                                        std::uint64_t patience_ns) const {
    const MessagePattern pattern{comm_, part.peer.rank, part.peer.tag};
    const std::uint64_t until = now_ns() + patience_ns;
    std::optional<MatchedMessage> found;
    // Open MPI first looks for a message and then makes progress, so the first look may be too
    // early.
    for (bool again = true; !(found = message_order().take(pattern)); again = false)
        if (!again && now_ns() >= until) return found;
    if (found->error != MPI_SUCCESS || found->bytes != header_size) return found;
    if (found->content.empty()) receive_content(*found);
    const auto header = decode(found->content);
    if (header && header->slot != 0) ordered.grant(comm_->world_rank(found->source), *header);
    return found;
}

// Returns true if the message can take the fast path.
bool MessageCall::is_small() const {
    const RangeArgument &range = parts_.front().range;
    return arguments.blocking != CL_FALSE && arguments.event == nullptr && queue.in_order &&
           comm_->wire() == Wire::cldist && parts_.size() == 1 && !range.strided &&
           range.size <= largest_small && host_path(config()) == Path::automatic &&
           !trace::enabled() && !needs_gate(false);
}

// Takes the fast path. Returns false if the message was only matched.
bool MessageCall::run_small() {
    const RangeArgument &range = parts_.front().range;
    SmallMessage message{
        queue.queue, range.buffer, range.offset, range.size, peer_of(parts_.front()), nullptr};
    if (queue.addresses_persist) {
        const cl_map_flags flags = writes() ? CL_MAP_WRITE : CL_MAP_READ;
        std::byte *const first = host_addresses().find_or_map(queue.queue, range.buffer, flags);
        if (first != nullptr) message.address = first + range.offset;
    }
    if (const Status status = writes() ? recv_small(message, found_) : send_small(message);
        !status.ok())
        throw Error(status);
    return !found_;
}

template <std::size_t count>
cl_int run(const char *call, const CommandArguments &command, std::array<Part, count> parts,
           MPI_Comm comm) {
    return at_boundary(call, [&] { MessageCall(command, parts, comm).run(); });
}

}  // namespace

extern "C" {

cl_int clEnqueueSendBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                           size_t offset, size_t size, int dest, int tag, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event) {
    return run("clEnqueueSendBuffer",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
               std::array{Part{{buffer, offset, size, Direction::send}, {dest, tag}}}, comm);
}

cl_int clEnqueueRecvBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                           size_t offset, size_t size, int source, int tag, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event) {
    return run("clEnqueueRecvBuffer",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
               std::array{Part{{buffer, offset, size, Direction::recv}, {source, tag}}}, comm);
}

cl_int clEnqueueSendrecvBuffer(cl_command_queue command_queue, cl_mem send_buffer, cl_bool blocking,
                               size_t send_offset, size_t send_size, int dest, int send_tag,
                               cl_mem recv_buffer, size_t recv_offset, size_t recv_size, int source,
                               int recv_tag, MPI_Comm comm, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event) {
    return run(
        "clEnqueueSendrecvBuffer",
        {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
        std::array{
            Part{{send_buffer, send_offset, send_size, Direction::send}, {dest, send_tag}},
            Part{{recv_buffer, recv_offset, recv_size, Direction::recv}, {source, recv_tag}}},
        comm);
}

cl_int clEnqueueSendBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               const size_t origin[3], const size_t region[3], size_t row_pitch,
                               size_t slice_pitch, int dest, int tag, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event) {
    const RectArguments rect{origin, region, row_pitch, slice_pitch};
    return run("clEnqueueSendBufferRect",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
               std::array{Part{{buffer, 0, 0, Direction::send, rect}, {dest, tag}}}, comm);
}

cl_int clEnqueueRecvBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               const size_t origin[3], const size_t region[3], size_t row_pitch,
                               size_t slice_pitch, int source, int tag, MPI_Comm comm,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event) {
    const RectArguments rect{origin, region, row_pitch, slice_pitch};
    return run("clEnqueueRecvBufferRect",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
               std::array{Part{{buffer, 0, 0, Direction::recv, rect}, {source, tag}}}, comm);
}

cl_int clEnqueueSendrecvBufferRect(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, const size_t send_origin[3],
                                   const size_t send_region[3], size_t send_row_pitch,
                                   size_t send_slice_pitch, int dest, int send_tag,
                                   cl_mem recv_buffer, const size_t recv_origin[3],
                                   const size_t recv_region[3], size_t recv_row_pitch,
                                   size_t recv_slice_pitch, int source, int recv_tag, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event) {
    const RectArguments send{send_origin, send_region, send_row_pitch, send_slice_pitch};
    const RectArguments recv{recv_origin, recv_region, recv_row_pitch, recv_slice_pitch};
    return run("clEnqueueSendrecvBufferRect",
               {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
               std::array{Part{{send_buffer, 0, 0, Direction::send, send}, {dest, send_tag}},
                          Part{{recv_buffer, 0, 0, Direction::recv, recv}, {source, recv_tag}}},
               comm);
}

}  // extern "C"
