#include "cluster/execution/transfers.hpp"

#include <array>
#include <utility>

#include "base/error_code.hpp"
#include "base/log.hpp"
#include "cluster/execution/host_copies.hpp"
#include "cluster/execution/host_region.hpp"
#include "cluster/execution/operations.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"
#include "pipeline/plan.hpp"

namespace cldist::cluster {
namespace {

// The origin of a whole image, and of host memory without an offset.
constexpr std::array<std::size_t, 3> no_offset{};

// Between two GPUs of a process, smaller copies are messages.
constexpr std::size_t least_peer_copy = 4096;

splitting::Intervals bytes_moved_by(const Transfer &transfer) {
    if (transfer.pieces.empty()) return {{transfer.begin, transfer.end}};
    std::vector<splitting::Interval> pieces;
    for (const Piece &piece : transfer.pieces) pieces.push_back({piece.begin, piece.end});
    return splitting::Intervals(std::move(pieces));
}

}  // namespace

Link Transfers::link(const Transfer &transfer, Direction direction) const {
    const bool same_host = topology_.host_of(topology_.process_of(transfer.source)) ==
                           topology_.host_of(topology_.process_of(transfer.target));
    const bool is_copy = transfer.kind == Transfer::Kind::copy;
    const MemoryTraits &source = memories_[transfer.source];
    const MemoryTraits &target = memories_[transfer.target];
    const std::size_t size = transfer.end - transfer.begin;
    const bool by_kernels = uses_kernels(config().path, size) && size <= most_bytes_by_kernel &&
                            same_host && !is_copy && source.host_memory == target.host_memory &&
                            (!source.host_memory || requests_kernels(config().path));
    return {same_host, source, direction == Direction::send ? source : target, is_copy, by_kernels};
}

// If this process cannot begin a transfer, for example for lack of memory, the transfer fails at
// both ends: the peer must not wait for it.
void Transfers::start(const Transfer &transfer) {
    MemObject &object = objects_[transfer.buffer];
    try {
        if (transfer.kind == Transfer::Kind::copy)
            start_copy(transfer, object);
        else if (object.is_image() || !transfer.pieces.empty())
            start_packed_message(transfer, object);
        else
            start_message(transfer, object);
    } catch (const Error &error) {
        log_error("cannot transfer {} bytes: {}: {}", transfer.end - transfer.begin,
                  error.status().message, code_text(error.status().code));
        const bool sends = transfer.kind == Transfer::Kind::send;
        const Direction direction = sends ? Direction::send : Direction::recv;
        if (!sends) object.arrivals.lose(transfer.target, bytes_moved_by(transfer));
        if (transfer.kind == Transfer::Kind::copy) return;
        DeviceRange nothing{nullptr, {}, 0, bytes_moved_by(transfer).bytes(), nullptr, {}};
        transport_.progress_thread().submit(
            command_of(transport_.transfer(std::move(nothing), direction, transfer.message,
                                           link(transfer, direction))),
            error.status());
    }
}

std::vector<cl_event> Transfers::waits_of(const Transfer &transfer, MemObject &object,
                                          Space &space) {
    std::vector<cl_event> waits;
    steps_.add_waits(transfer.after, space, waits);
    object.arrivals.update();
    for (const splitting::Interval &bytes : bytes_moved_by(transfer))
        if (object.arrivals.lacks(transfer.source, bytes))
            throw Error(CL_OUT_OF_RESOURCES, "an earlier transfer to their device failed");
    return waits;
}

void Transfers::add_step(const Transfer &transfer, MemObject &object, Space &space, Event event) {
    if (space.memory == transfer.target)
        object.arrivals.expect(transfer.target, bytes_moved_by(transfer),
                               Event::share(event.get()));
    steps_.add(transfer.step, space, std::move(event), {transfer.after});
}

Transfers::ChannelEnd Transfers::make_end(const Transfer &transfer, MemObject &object,
                                          Direction direction) {
    const bool sends = direction == Direction::send;
    Space &space = *object.context->space(sends ? transfer.source : transfer.target);
    const std::size_t size = transfer.end - transfer.begin;
    const std::shared_ptr<DeviceResources> &resources = space.resources();
    const QueueInfo &queue = space.transfer_queue();
    const std::vector<cl_event> waits = waits_of(transfer, object, space);

    DeviceRange range{resources, Mem::share(object.native(space)), transfer.begin, size, nullptr,
                      {}};
    std::vector<Mapping> mappings;
    if (plan_mapping(resources->host_memory(), size, link(transfer, direction).advice_here(),
                     config()))
        mappings.push_back({range.buffer.get(), range.offset, size,
                            static_cast<cl_map_flags>(sends ? CL_MAP_READ : CL_MAP_WRITE)});
    const bool persists = find_persistent(queue, mappings);
    // Mappings may be distinguished by their addresses alone: the program's unmapping could end
    // this mapping before it begins.
    if (!persists && object.is_mapped_natively()) mappings.clear();
    auto bridge = persists || mappings.empty()
                      ? std::make_unique<Bridge>(queue.context, start_behind(queue, waits))
                      : std::make_unique<Bridge>(queue, waits, mappings);
    if (!mappings.empty()) range.mapped = static_cast<std::byte *>(mappings.front().memory);
    return {std::move(range),
            std::move(bridge),
            queue.device,
            {nullptr, !waits.empty(), !resources->is_cpu()}};
}

// A kernel cannot fail its event, so it must not carry out a transfer that may fail.
bool Transfers::start_kernel(const Transfer &transfer, MemObject &object, Space &space,
                             Direction direction, const Link &link) {
    if (!link.by_kernels || object.context->is_careful()) return false;
    if (!requests_kernels(config().path) && !object.is_safe_in_kernels()) return false;
    const std::vector<cl_event> waits = waits_of(transfer, object, space);
    for (const cl_event event : waits) flush_producer(event);
    const DeviceRange range{space.resources(), Mem::share(object.native(space)),
                            transfer.begin,    transfer.end - transfer.begin,
                            nullptr,           {}};
    Event event = transport_.transfer_by_kernel(
        {range, space.separate_queue(), waits, direction, transfer.message, link});
    if (!event) return false;
    add_step(transfer, object, space, std::move(event));
    return true;
}

void Transfers::start_message(const Transfer &transfer, MemObject &object) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    const Direction direction = sends ? Direction::send : Direction::recv;
    const Link link = this->link(transfer, direction);
    Space &space = *object.context->space(sends ? transfer.source : transfer.target);
    if (start_kernel(transfer, object, space, direction, link)) return;
    ChannelEnd end = make_end(transfer, object, direction);
    add_step(transfer, object, space, Event::share(end.bridge->user_visible_event()));
    start_channel(std::move(end), direction, transfer.message, link);
}

namespace {

std::shared_ptr<std::byte[]> memory_for_copies(Space &space, std::size_t size) {
    const DeviceResources &resources = *space.resources();
    auto memory = HostCopies::possible(!resources.host_memory())
                      ? HostCopies::page_locked(resources, size)
                      : nullptr;
    return memory != nullptr ? memory : own_memory(size);
}

// Pieces of equal length at equal distances, which one rectangle copy can move.
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
        all.push_back(
            {begin, length, pitch, rows > 1 && begin % pitch + length <= pitch ? rows : 1});
    }
    return all;
}

cl_int copy_rows(cl_command_queue queue, cl_mem buffer, const Rows &rows, std::byte *memory,
                 bool reads, const WaitArguments &waits, cl_event *event) {
    if (rows.count == 1)
        return reads ? clEnqueueReadBuffer(queue, buffer, CL_FALSE, rows.begin, rows.length, memory,
                                           waits.count, waits.events, event)
                     : clEnqueueWriteBuffer(queue, buffer, CL_FALSE, rows.begin, rows.length,
                                            memory, waits.count, waits.events, event);
    const std::array<std::size_t, 3> origin{rows.begin % rows.pitch, rows.begin / rows.pitch, 0};
    const std::array<std::size_t, 3> region{rows.length, rows.count, 1};
    return reads ? clEnqueueReadBufferRect(queue, buffer, CL_FALSE, origin.data(), no_offset.data(),
                                           region.data(), rows.pitch, 0, rows.length, 0, memory,
                                           waits.count, waits.events, event)
                 : clEnqueueWriteBufferRect(
                       queue, buffer, CL_FALSE, origin.data(), no_offset.data(), region.data(),
                       rows.pitch, 0, rows.length, 0, memory, waits.count, waits.events, event);
}

// Instead of more copies than this, a kernel and one copy move the pieces: see Throttle.
constexpr std::size_t most_copies = 8;

std::vector<Event> copy_by_kernel(Space &space, cl_command_queue queue, cl_mem buffer,
                                  std::span<const Piece> pieces, std::byte *memory, bool reads,
                                  std::span<const cl_event> waits) {
    PieceKernels &kernels = space.piece_kernels();
    std::vector<PieceCopy> copies;
    std::size_t size = 0;
    for (const Piece &piece : pieces) {
        copies.push_back({piece.begin, size, piece.end - piece.begin});
        size += piece.end - piece.begin;
    }
    const Mem packed = create("clCreateBuffer", clCreateBuffer, space.context.get(),
                              CL_MEM_READ_WRITE, size, nullptr);
    const auto copy = [&](std::span<const cl_event> behind, cl_event *event) {
        return copy_rows(queue, packed.get(), {0, size, 0, 1}, memory, reads, behind, event);
    };
    std::vector<Event> events(2);
    check(reads ? kernels.enqueue(true, queue, buffer, packed.get(), copies, waits, events[0].out())
                : copy(waits, events[0].out()),
          "copying pieces");
    const cl_event first = events[0].get();
    check(reads ? copy({&first, 1}, events[1].out())
                : kernels.enqueue(false, queue, buffer, packed.get(), copies, std::span(&first, 1),
                                  events[1].out()),
          "copying pieces");
    return events;
}

// Enqueues the copies between pieces of a buffer and contiguous host memory. Returns events to keep
// until the copies have ended; the last one ends after all copies.
std::vector<Event> copy_pieces(Space &space, const QueueInfo &info, cl_mem buffer,
                               std::span<const Piece> pieces, std::byte *memory, bool reads,
                               std::span<const cl_event> waits) {
    const std::vector<Rows> all = rows_of(pieces);
    if (all.size() > most_copies && !space.resources()->host_memory() &&
        space.piece_kernels().may_use(buffer, reads))
        return copy_by_kernel(space, info.queue, buffer, pieces, memory, reads, waits);
    std::vector<Event> copied;
    for (const Rows &rows : all) {
        copied.emplace_back();
        check(copy_rows(info.queue, buffer, rows, memory, reads, waits, copied.back().out()),
              "copying pieces");
        memory += rows.count * rows.length;
    }
    if (copied.size() == 1) return copied;
    std::vector<cl_event> together;
    for (const Event &each : copied) together.push_back(each.get());
    return enqueue_start(info, together, {}).events;
}

}  // namespace

// Enqueues the copies between an object and host memory, where the pieces of a buffer, or the bytes
// of an image, are contiguous. Returns an event that ends after all copies.
Event Transfers::copy_packed(const Transfer &transfer, MemObject &object, Space &space,
                             const std::shared_ptr<const QueueInfo> &queue,
                             const std::shared_ptr<std::byte[]> &memory, bool reads,
                             std::span<const cl_event> waits) {
    std::vector<Event> events(1);
    if (object.is_image()) {
        const auto extent = extents(object.desc);
        const WaitArguments list(waits);
        check(reads ? clEnqueueReadImage(queue->queue, object.native(space), CL_FALSE,
                                         no_offset.data(), extent.data(), 0, 0, memory.get(),
                                         list.count, list.events, events.front().out())
                    : clEnqueueWriteImage(queue->queue, object.native(space), CL_FALSE,
                                          no_offset.data(), extent.data(), 0, 0, memory.get(),
                                          list.count, list.events, events.front().out()),
              "copying an image");
    } else {
        const Piece whole{transfer.begin, transfer.end};
        const std::span<const Piece> pieces =
            transfer.pieces.empty() ? std::span<const Piece>(&whole, 1) : transfer.pieces;
        events =
            copy_pieces(space, *queue, object.native(space), pieces, memory.get(), reads, waits);
    }
    flush_if_needed(queue->queue);
    Event copied = std::move(events.back());
    events.pop_back();
    keep_until(copied.get(), queue);
    keep_until(copied.get(), memory);
    if (!events.empty())
        keep_until(copied.get(), std::make_shared<const std::vector<Event>>(std::move(events)));
    return copied;
}

// The bytes pass through host memory. So do those of an image, because a driver may not copy
// between buffers and arrays of 1D images.
void Transfers::start_packed_message(const Transfer &transfer, MemObject &object) {
    const bool sends = transfer.kind == Transfer::Kind::send;
    Space &space = *object.context->space(sends ? transfer.source : transfer.target);
    const std::size_t size = bytes_moved_by(transfer).bytes();
    const std::shared_ptr<const QueueInfo> queue = space.queue_of_transfer();
    const std::shared_ptr<std::byte[]> memory = memory_for_copies(space, size);
    std::vector<cl_event> waits = waits_of(transfer, object, space);

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
    add_step(transfer, object, space, std::move(copied));
    // The message needs the memory even if the copy fails before the message has arrived.
    keep_until(bridge->user_visible_event(), memory);
    const Direction direction = sends ? Direction::send : Direction::recv;
    start_channel({{nullptr, {}, 0, size, memory.get(), {}},
                   std::move(bridge),
                   queue->device,
                   {nullptr, sends, !space.resources()->is_cpu()}},
                  direction, transfer.message, link(transfer, direction));
}

void Transfers::start_channel(ChannelEnd end, Direction direction, const Message &message,
                              const Link &link) {
    const bool starts_now = end.bridge->start().gate == nullptr;
    auto command = command_of(transport_.transfer(std::move(end.range), direction, message, link),
                              std::move(end.bridge), end.device);
    if (starts_now)
        transport_.progress_thread().submit(std::move(command), {});
    else
        transport_.progress_thread().start_when_ready(std::move(command), end.rule);
}

// A copy between two memories of this process is a message to itself if the devices share no
// memory. Images and pieces pass through host memory.
void Transfers::start_copy(const Transfer &transfer, MemObject &object) {
    const bool contiguous = !object.is_image() && transfer.pieces.empty();
    if (contiguous && start_peer_copy(transfer, object)) return;
    if (!contiguous || !transport_.reaches_itself()) {
        start_staged_copy(transfer, object);
        return;
    }
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    ChannelEnd from = make_end(transfer, object, Direction::send);
    ChannelEnd to = make_end(transfer, object, Direction::recv);
    const Message message{self_, copies_between_++};
    add_step(transfer, object, source, Event::share(from.bridge->user_visible_event()));
    add_step(transfer, object, target, Event::share(to.bridge->user_visible_event()));
    start_channel(std::move(from), Direction::send, message, link(transfer, Direction::send));
    start_channel(std::move(to), Direction::recv, message, link(transfer, Direction::recv));
}

template <typename First, typename Second>
void Transfers::start_two_commands(const Transfer &transfer, MemObject &object, First first,
                                   Second second) {
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    std::vector<cl_event> waits = waits_of(transfer, object, source);
    Event left = first(waits);

    Event arrived = create("clCreateUserEvent", clCreateUserEvent, target.context.get());
    auto ending = std::make_shared<Ending>();
    waits = waits_of(transfer, object, target);
    waits.push_back(arrived.get());
    Event written = second(waits);
    end_alike(*ending, arrived.get());
    ends_.end_with(left.get(), std::move(ending));
    add_step(transfer, object, source, std::move(left));
    add_step(transfer, object, target, std::move(written));
}

void Transfers::start_staged_copy(const Transfer &transfer, MemObject &object) {
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    const std::shared_ptr<std::byte[]> memory =
        memory_for_copies(source, bytes_moved_by(transfer).bytes());
    const auto copy = [&](Space &space, bool reads, std::span<const cl_event> waits) {
        return copy_packed(transfer, object, space, space.queue_of_transfer(), memory, reads,
                           waits);
    };
    start_two_commands(
        transfer, object, [&](const auto &waits) { return copy(source, true, waits); },
        [&](const auto &waits) { return copy(target, false, waits); });
}

bool Transfers::start_peer_copy(const Transfer &transfer, MemObject &object) {
    Space &source = *object.context->space(transfer.source);
    Space &target = *object.context->space(transfer.target);
    const std::size_t size = transfer.end - transfer.begin;
    if (size < least_peer_copy || size > PeerMemory::capacity) return false;
    const std::shared_ptr<PeerMemory> memory = target.peer_memory(source);
    const auto offset = memory != nullptr ? memory->lease(size) : nullptr;
    if (offset == nullptr) return false;
    const auto copy = [&](Space &space, cl_mem from, std::size_t from_offset, cl_mem to,
                          std::size_t to_offset, const WaitArguments &waits) {
        const std::shared_ptr<const QueueInfo> queue = space.queue_of_transfer();
        Event copied;
        check(clEnqueueCopyBuffer(queue->queue, from, to, from_offset, to_offset, size, waits.count,
                                  waits.events, copied.out()),
              "clEnqueueCopyBuffer");
        flush_if_needed(queue->queue);
        keep_until(copied.get(), queue);
        keep_until(copied.get(), offset);
        return copied;
    };
    start_two_commands(
        transfer, object,
        [&](std::span<const cl_event> waits) {
            return copy(source, object.native(source), transfer.begin, memory->for_writer(),
                        *offset, waits);
        },
        [&](std::span<const cl_event> waits) {
            return copy(target, memory->for_owner(), *offset, object.native(target), transfer.begin,
                        waits);
        });
    return true;
}

}  // namespace cldist::cluster
