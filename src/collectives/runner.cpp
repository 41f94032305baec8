#include "collectives/runner.hpp"

#include <algorithm>
#include <bit>

#include "collectives/landing.hpp"
#include "ocl/query.hpp"
#include "ocl/quirks.hpp"

namespace cldist::collectives {
namespace {

// Each work-item processes one or two elements. Above this number of work-items, which no driver
// refuses, each work-item processes more elements with a stride. Powers of two, because a driver
// may compile a kernel for each work-group size.
constexpr std::size_t most_items = std::size_t{1} << 24U;
// For an operator on a CPU device: enough chunks for its cores, and each chunk large enough.
constexpr std::size_t most_chunks = 64;
constexpr std::size_t smallest_chunk = 4096;

}  // namespace

Event Runner::enqueue_marker(cl_command_queue queue, const std::vector<cl_event> &events) {
    Event event;
    const WaitArguments waits(events);
    check(clEnqueueMarkerWithWaitList(queue, waits.count, waits.events, event.out()),
          "clEnqueueMarkerWithWaitList");
    return event;
}

Runner::Runner(std::span<const cl_command_queue> queues, std::span<const cl_event> wait_list,
               bool ordered, bool on_first, bool wanted)
    : queues_(queues), ordered_(ordered), wanted_(wanted) {
    for (const cl_command_queue queue : queues) {
        const auto known = [&](const Lane &lane) { return lane.queue == queue; };
        if (std::ranges::any_of(lanes_, known)) continue;
        const auto device = query<cl_device_id>(queue, CL_QUEUE_DEVICE).value_or(nullptr);
        alignment_ = std::max<std::size_t>(
            alignment_, query<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN).value_or(8) / 8);
        const auto properties =
            query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES).value_or(0);
        lanes_.push_back({queue, device, (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0,
                          is_cpu(device)});
    }
    begun_.assign(wait_list.begin(), wait_list.end());
    waits_ = begun_.size();
    on_first_ = on_first && (lanes_.size() == 1 || landing_of(lanes_[0], lanes_[1]) == nullptr);
    serial_ = lanes_.front().in_order && (on_first_ || lanes_.size() == 1);
    if (lanes_.size() == 1 || ordered_) return;
    // Commands use memory of other queues' devices, so no queue begins before all queues may begin.
    for (const Lane &lane : lanes_) {
        if (!lane.in_order || &lane == &lanes_.front()) continue;
        events_.push_back(enqueue_marker(lane.queue, {}));
        begun_.push_back(events_.back().get());
    }
    if (!lanes_.front().in_order || serial_) return;
    events_.push_back(enqueue_marker(lanes_.front().queue, begun_));
    begun_.assign(1, events_.back().get());
}

std::shared_ptr<Landing> Runner::landing_of(const Lane &writer, const Lane &owner) {
    const auto context = query<cl_context>(owner.queue, CL_QUEUE_CONTEXT).value_or(nullptr);
    return Landing::between(context, writer.device, owner.device);
}

Runner::Lane &Runner::lane_of(std::size_t queue) {
    if (on_first_) return lanes_.front();
    return *std::ranges::find(lanes_, queues_[queue], &Lane::queue);
}

void Runner::wait_for(cl_mem root, bool write, std::vector<cl_event> &events) {
    const auto at = accesses_.find(root);
    if (at == accesses_.end()) return;
    for (const Access &access : at->second)
        if ((write || access.writes) && std::ranges::find(events, access.event) == events.end())
            events.push_back(access.event);
}

void Runner::note(cl_mem root, bool write, cl_event event) {
    if (root == nullptr) return;
    std::vector<Access> &accesses = accesses_[root];
    // A command that waits for the write also waits for all accesses before it.
    if (write) accesses.clear();
    accesses.push_back({event, write});
}

template <typename Enqueue>
cl_event Runner::enqueue(std::size_t queue, const Memory &to, const Memory &from, cl_event after,
                         const char *call, const Enqueue &step) {
    const bool chained = !ordered_ && !serial_;
    Lane &lane = lane_of(queue);
    std::vector<cl_event> events = begun_;
    if (after != nullptr) events.push_back(after);
    if (chained) {
        wait_for(from.root, false, events);
        wait_for(to.root, true, events);
    }
    has_steps_ = true;
    Event event;
    // The command's event fails if any step fails.
    const bool asked = chained || wanted_;
    const WaitArguments waits(events);
    check(step(lane.queue, waits.count, waits.events, asked ? event.out() : nullptr), call);
    // Later steps follow the first in the queue, but each must fail if the wait list fails.
    if (serial_) begun_.resize(waits_);
    if (!asked) return nullptr;
    if (chained) {
        note(from.root, false, event.get());
        note(to.root, true, event.get());
    }
    if (lane.in_order && !wanted_) lane.left.clear();
    lane.left.push_back(event.get());
    events_.push_back(std::move(event));
    return events_.back().get();
}

Memory Runner::aside(cl_context context, std::size_t size) {
    memory_.push_back(
        create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE, size, nullptr));
    return {memory_.back().get(), 0, size, memory_.back().get(), 0};
}

// A kernel uses its whole argument, and the cluster platform transfers it. Therefore a sub-buffer
// is passed, if the device's alignment allows it.
Memory Runner::argument(const Memory &memory, std::size_t size) {
    if (size == memory.size || memory.offset_in_root() % alignment_ != 0) return memory;
    const cl_buffer_region region{memory.offset_in_root(), size};
    cl_int code = CL_SUCCESS;
    Mem part =
        Mem::adopt(clCreateSubBuffer(memory.root, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
    if (code != CL_SUCCESS) return memory;
    memory_.push_back(std::move(part));
    return {memory_.back().get(), 0, size, memory.root, memory.offset_in_root()};
}

cl_event Runner::enqueue_copy(std::size_t queue, const Memory &to, const Memory &from,
                              std::size_t size, cl_event after) {
    return enqueue(
        queue, to, from, after, "clEnqueueCopyBuffer",
        [&](cl_command_queue on, cl_uint count, const cl_event *events, cl_event *event) {
            return clEnqueueCopyBuffer(on, from.buffer, to.buffer, from.offset, to.offset, size,
                                       count, events, event);
        });
}

template <typename Use>
void Runner::in_pieces(std::size_t queue, std::size_t from_queue, const Memory &from,
                       std::size_t size, std::size_t element, const Use &use) {
    const Lane &writer = lane_of(from_queue);
    const Lane &owner = lane_of(queue);
    const bool apart = !ordered_ && !serial_ && !on_first_ && writer.device != owner.device;
    const auto landing =
        apart && Landing::piece_size % element == 0 ? landing_of(writer, owner) : nullptr;
    if (landing == nullptr) {
        use(0, from, size, nullptr);
        return;
    }
    const bool ordered = writer.in_order && owner.in_order;
    const auto lock = landing->lock();
    for (std::size_t done = 0, length = 0; done < size; done += length) {
        length = std::min(Landing::piece_size, size - done);
        Memory part = from;
        part.offset += done;
        Landing::Piece *const piece = landing->take(ordered ? writer.queue : nullptr, owner.queue);
        if (piece == nullptr) {
            use(done, part, length, nullptr);
            continue;
        }
        const auto memory = [&](cl_mem buffer) {
            return Memory{buffer, piece->offset, length, nullptr, 0};
        };
        const cl_event arrived = enqueue_copy(from_queue, memory(landing->memory().for_writer()),
                                              part, length, piece->last.get());
        *piece = {piece->offset, Event::share(arrived), ordered ? writer.queue : nullptr,
                  owner.queue};
        piece->last =
            Event::share(use(done, memory(landing->memory().for_owner()), length, arrived));
    }
}

void Runner::copy(std::size_t queue, const Memory &to, std::size_t from_queue, const Memory &from,
                  std::size_t size) {
    if (from.root == to.root && from.offset_in_root() == to.offset_in_root()) return;
    in_pieces(queue, from_queue, from, size, 1,
              [&](std::size_t done, const Memory &part, std::size_t length, cl_event after) {
                  Memory target = to;
                  target.offset += done;
                  return enqueue_copy(queue, target, part, length, after);
              });
}

void Runner::combine(std::size_t queue, cl_kernel combine, bool is_operator, std::size_t element,
                     const Memory &to, std::size_t from_queue, const Memory &from,
                     std::size_t size) {
    in_pieces(queue, from_queue, from, size, element,
              [&](std::size_t done, const Memory &part, std::size_t length, cl_event after) {
                  Memory target = to;
                  target.offset += done;
                  return enqueue_combine(queue, combine, is_operator, element, target, part, length,
                                         after);
              });
}

cl_event Runner::enqueue_combine(std::size_t queue, cl_kernel combine, bool is_operator,
                                 std::size_t element, const Memory &to, const Memory &from,
                                 std::size_t size, cl_event after) {
    // A part that was copied to this device has no `root`, and the other part is on this device.
    Memory a = from.root != nullptr ? argument(to, size) : to;
    Memory b = from.root != nullptr ? argument(from, size) : from;
    // On the cluster platform only the needed part should be transferred.
    const bool a_aside = ordered_ && a.size != size;
    const bool b_aside = ordered_ && b.size != size;
    if (a_aside || b_aside) {
        const auto context = query<cl_context>(to.buffer, CL_MEM_CONTEXT).value_or(nullptr);
        if (a_aside) enqueue_copy(queue, a = aside(context, size), to, size);
        if (b_aside) enqueue_copy(queue, b = aside(context, size), from, size);
    }
    check(set_arguments(combine, a.buffer, cl_ulong{a.offset / element}, b.buffer,
                        cl_ulong{b.offset / element}, cl_ulong{size / element}),
          "clSetKernelArg");
    const bool in_chunks = is_operator && lane_of(queue).is_cpu;
    const std::size_t one = 1;
    const std::size_t items = in_chunks
                                  ? std::clamp(size / element / smallest_chunk, one, most_chunks)
                                  : std::min(std::bit_floor(size / element), most_items);
    const cl_event combined = enqueue(
        queue, a, b, after, "clEnqueueNDRangeKernel",
        [&](cl_command_queue on, cl_uint number, const cl_event *events, cl_event *event) {
            return clEnqueueNDRangeKernel(on, combine, 1, nullptr, &items,
                                          in_chunks ? &one : nullptr, number, events, event);
        });
    return a_aside ? enqueue_copy(queue, to, a, size) : combined;
}

Event Runner::end() {
    Lane &first = lanes_.front();
    std::vector<cl_event> all;
    for (Lane &lane : lanes_) {
        // Other processes then wait for one event instead of an event per step.
        if (ordered_ && &lane != &first && lane.left.size() > 1) {
            events_.push_back(enqueue_marker(lane.queue, lane.left));
            lane.left.assign(1, events_.back().get());
        }
        all.insert(all.end(), lane.left.begin(), lane.left.end());
    }
    if (all.empty()) all = begun_;
    Event last;
    const bool others = !ordered_ && std::any_of(lanes_.begin() + 1, lanes_.end(),
                                                 [](const Lane &lane) { return lane.in_order; });
    // In an in-order queue, later commands wait for this command; the steps of a single queue need
    // no marker.
    const bool is_alone = serial_ || lanes_.size() == 1;
    if (wanted_ || others || (!ordered_ && first.in_order && (!is_alone || !has_steps_)))
        last = enqueue_marker(first.queue, all);
    for (const Lane &lane : lanes_) {
        if (!others || !lane.in_order || &lane == &first) continue;
        const cl_event after = last.get();
        check(clEnqueueBarrierWithWaitList(lane.queue, 1, &after, nullptr),
              "clEnqueueBarrierWithWaitList");
    }
    // Commands in one queue wait for commands in others.
    for (const Lane &lane : lanes_) check(flush_if_needed(lane.queue), "clFlush");
    return wanted_ ? std::move(last) : Event();
}

}  // namespace cldist::collectives
