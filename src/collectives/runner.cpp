#include "collectives/runner.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "ocl/query.hpp"

namespace cldist::collectives {
namespace {

// As many work-items as elements, but not so many that a driver minds; they go through the rest in steps.
constexpr std::size_t most_items = std::size_t{1} << 24U;

const cl_event *data_of(const std::vector<cl_event> &events) { return events.empty() ? nullptr : events.data(); }
cl_uint count_of(const std::vector<cl_event> &events) { return static_cast<cl_uint>(events.size()); }

Event enqueue_marker(cl_command_queue queue, const std::vector<cl_event> &events) {
    Event event;
    check(clEnqueueMarkerWithWaitList(queue, count_of(events), data_of(events), event.out()),
          "clEnqueueMarkerWithWaitList");
    return event;
}

}  // namespace

bool on_cluster(cl_command_queue queue) {
    const auto device = query<cl_device_id>(queue, CL_QUEUE_DEVICE).value_or(nullptr);
    const auto platform = query<cl_platform_id>(device, CL_DEVICE_PLATFORM).value_or(nullptr);
    std::array<char, 64> name{};
    return clGetPlatformInfo(platform, CL_PLATFORM_NAME, name.size(), name.data(), nullptr) == CL_SUCCESS &&
           std::string_view(name.data()) == "cldist";
}

Memory in_whole(const Memory &memory) {
    const auto parent = query<cl_mem>(memory.buffer, CL_MEM_ASSOCIATED_MEMOBJECT).value_or(nullptr);
    if (parent == nullptr) return memory;
    return {parent, memory.offset + query<std::size_t>(memory.buffer, CL_MEM_OFFSET).value_or(0)};
}

Runner::Runner(std::span<const cl_command_queue> queues, std::span<const cl_event> wait_list)
    : queues_(queues), ordered_(on_cluster(queues.front())) {
    for (const cl_command_queue queue : queues) {
        const auto known = [&](const Lane &lane) { return lane.queue == queue; };
        if (std::any_of(lanes_.begin(), lanes_.end(), known)) continue;
        const auto device = query<cl_device_id>(queue, CL_QUEUE_DEVICE).value_or(nullptr);
        alignment_ =
            std::max<std::size_t>(alignment_, query<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN).value_or(8) / 8);
        const auto properties = query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES).value_or(0);
        lanes_.push_back({queue, (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0, {}});
    }
    begun_.assign(wait_list.begin(), wait_list.end());
    if (lanes_.size() == 1 || ordered_) return;
    // The memory of one queue's device is used by others' commands: all begin when all may.
    for (const Lane &lane : lanes_) {
        if (!lane.in_order || &lane == &lanes_.front()) continue;
        events_.push_back(enqueue_marker(lane.queue, {}));
        begun_.push_back(events_.back().get());
    }
    if (!lanes_.front().in_order) return;
    events_.push_back(begun_.empty() ? enqueue_marker(lanes_.front().queue, {})
                                     : enqueue_marker(lanes_.front().queue, begun_));
    begun_.assign(1, events_.back().get());
}

Runner::Lane &Runner::lane_of(cl_command_queue queue) {
    return *std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane &lane) { return lane.queue == queue; });
}

void Runner::wait_for(cl_mem whole, bool write, std::vector<cl_event> &events) {
    const auto at = accesses_.find(whole);
    if (at == accesses_.end()) return;
    for (const Access &access : at->second)
        if ((write || access.writes) && std::find(events.begin(), events.end(), access.event) == events.end())
            events.push_back(access.event);
}

void Runner::note(cl_mem whole, bool write, cl_event event) {
    if (ordered_) return;
    std::vector<Access> &accesses = accesses_[whole];
    // Who waits for a write has waited for what it waited for.
    if (write) accesses.clear();
    accesses.push_back({event, write});
}

void Runner::ended(std::size_t queue, Event event) {
    Lane &lane = lane_of(queues_[queue]);
    if (lane.in_order) lane.left.clear();
    lane.left.push_back(event.get());
    events_.push_back(std::move(event));
}

// A kernel uses, and the cluster platform moves, the whole of what it is given: a sub-buffer, where it may begin there.
Runner::Argument Runner::argument(const Memory &memory, std::size_t size) {
    const Memory whole = in_whole(memory);
    if (size == query<std::size_t>(memory.buffer, CL_MEM_SIZE) || whole.offset % alignment_ != 0)
        return {memory.buffer, memory.offset};
    const cl_buffer_region region{whole.offset, size};
    cl_int code = CL_SUCCESS;
    Mem part = Mem::adopt(clCreateSubBuffer(whole.buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
    if (code != CL_SUCCESS) return {memory.buffer, memory.offset};
    sub_buffers_.push_back(std::move(part));
    return {sub_buffers_.back().get(), 0};
}

void Runner::copy(std::size_t queue, const Memory &to, const Memory &from, std::size_t size) {
    const Memory source = in_whole(from);
    const Memory destination = in_whole(to);
    if (source.buffer == destination.buffer && source.offset == destination.offset) return;
    std::vector<cl_event> events = begun_;
    wait_for(source.buffer, false, events);
    wait_for(destination.buffer, true, events);
    Event event;
    check(clEnqueueCopyBuffer(queues_[queue], from.buffer, to.buffer, from.offset, to.offset, size, count_of(events),
                              data_of(events), event.out()),
          "clEnqueueCopyBuffer");
    note(source.buffer, false, event.get());
    note(destination.buffer, true, event.get());
    ended(queue, std::move(event));
}

void Runner::combine(std::size_t queue, cl_kernel combine, std::size_t element, const Memory &to, const Memory &from,
                     std::size_t size) {
    const Memory source = in_whole(from);
    const Memory destination = in_whole(to);
    std::vector<cl_event> events = begun_;
    wait_for(source.buffer, false, events);
    wait_for(destination.buffer, true, events);
    const Argument a = argument(to, size);
    const Argument b = argument(from, size);
    const cl_ulong first_a = a.offset / element;
    const cl_ulong first_b = b.offset / element;
    const cl_ulong count = size / element;
    check(clSetKernelArg(combine, 0, sizeof(cl_mem), &a.buffer), "clSetKernelArg");
    check(clSetKernelArg(combine, 1, sizeof first_a, &first_a), "clSetKernelArg");
    check(clSetKernelArg(combine, 2, sizeof(cl_mem), &b.buffer), "clSetKernelArg");
    check(clSetKernelArg(combine, 3, sizeof first_b, &first_b), "clSetKernelArg");
    check(clSetKernelArg(combine, 4, sizeof count, &count), "clSetKernelArg");
    const std::size_t items = std::min<std::size_t>(count, most_items);
    Event event;
    check(clEnqueueNDRangeKernel(queues_[queue], combine, 1, nullptr, &items, nullptr, count_of(events),
                                 data_of(events), event.out()),
          "clEnqueueNDRangeKernel");
    note(source.buffer, false, event.get());
    note(destination.buffer, true, event.get());
    ended(queue, std::move(event));
}

Event Runner::end(bool wanted) {
    Lane &first = lanes_.front();
    std::vector<cl_event> all;
    for (const Lane &lane : lanes_) all.insert(all.end(), lane.left.begin(), lane.left.end());
    if (all.empty()) all = begun_;
    Event last;
    const bool others =
        !ordered_ && std::any_of(lanes_.begin() + 1, lanes_.end(), [](const Lane &lane) { return lane.in_order; });
    // An in-order queue goes on when the end has come in it; without more queues it does so by itself.
    if (wanted || others || (!ordered_ && lanes_.size() > 1 && first.in_order)) last = enqueue_marker(first.queue, all);
    for (const Lane &lane : lanes_) {
        if (!others || !lane.in_order || &lane == &first) continue;
        const cl_event after = last.get();
        check(clEnqueueBarrierWithWaitList(lane.queue, 1, &after, nullptr), "clEnqueueBarrierWithWaitList");
    }
    // What is in one queue waits for others.
    for (const Lane &lane : lanes_) check(clFlush(lane.queue), "clFlush");
    return wanted ? std::move(last) : Event();
}

}  // namespace cldist::collectives
