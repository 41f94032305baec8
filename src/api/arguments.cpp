#include "api/arguments.hpp"

#include "base/error_code.hpp"
#include "ocl/query.hpp"

namespace cldist {
namespace {

QueueInfo queue_info(cl_command_queue queue) {
    const auto context = query<cl_context>(queue, CL_QUEUE_CONTEXT);
    const auto device = query<cl_device_id>(queue, CL_QUEUE_DEVICE);
    const auto properties = query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES);
    if (queue == nullptr || !context || !device || !properties)
        throw Error(CL_INVALID_COMMAND_QUEUE, "the command queue is not valid");
    if ((*properties & CL_QUEUE_ON_DEVICE) != 0)
        throw Error(CL_INVALID_COMMAND_QUEUE,
                    "the command queue is a device queue; expected a host queue");
    return {queue, *context, *device, (*properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0};
}

void check_buffer(const RangeArgument &range) {
    const auto type = query<cl_mem_object_type>(range.buffer, CL_MEM_TYPE);
    if (range.buffer == nullptr || type != CL_MEM_OBJECT_BUFFER)
        throw Error(CL_INVALID_MEM_OBJECT, "the memory object is not a valid buffer");
}

void check_contexts(const QueueInfo &queue, const CommandArguments &command,
                    std::span<const RangeArgument> ranges) {
    for (const RangeArgument &range : ranges)
        if (query<cl_context>(range.buffer, CL_MEM_CONTEXT) != queue.context)
            throw Error(CL_INVALID_CONTEXT,
                        "the buffer and the queue belong to different contexts");
    for (const cl_event event : command.events()) {
        if (event == nullptr) continue;
        const auto context = query<cl_context>(event, CL_EVENT_CONTEXT);
        if (context && context != queue.context)
            throw Error(CL_INVALID_CONTEXT,
                        "an event of the wait list and the queue belong to different contexts");
    }
}

void check_bounds(RangeArgument &range) {
    const std::size_t size = query<std::size_t>(range.buffer, CL_MEM_SIZE).value_or(0);
    if (range.rect) {
        const PlacedRect placed = place_rect(*range.rect, size);
        range.offset = placed.offset;
        range.size = placed.region.size();
        if (!placed.region.contiguous()) range.strided = placed.region.simplified();
        return;
    }
    if (range.offset > size || range.size > size - range.offset)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("offset {} and size {} exceed the buffer of {} bytes", range.offset,
                                range.size, size));
}

RectRegion region_of(const RangeArgument &range) {
    return range.strided.value_or(RectRegion{range.size, 1, 1, range.size, range.size});
}

void check_overlap(const RangeArgument &a, const RangeArgument &b) {
    if (a.size == 0 || b.size == 0) return;
    const Extent x = extent_of(a);
    const Extent y = extent_of(b);
    if (x.buffer == y.buffer && x.begin < y.end && y.begin < x.end &&
        overlap(region_of(a), region_of(b), static_cast<std::ptrdiff_t>(y.begin - x.begin)))
        throw Error(
            CL_INVALID_VALUE,
            fmt::format("the range to send, bytes {} to {}, and the range to receive, bytes "
                        "{} to {}, overlap",
                        x.begin, x.end, y.begin, y.end));
}

void check_wait_list(const CommandArguments &command) {
    if ((command.wait_list == nullptr) != (command.num_events == 0))
        throw Error(
            CL_INVALID_EVENT_WAIT_LIST,
            fmt::format("num_events_in_wait_list is {}, but event_wait_list is {}",
                        command.num_events, command.wait_list == nullptr ? "NULL" : "not NULL"));
    for (const cl_event event : command.events())
        if (event == nullptr || !query<cl_int>(event, CL_EVENT_COMMAND_EXECUTION_STATUS))
            throw Error(CL_INVALID_EVENT_WAIT_LIST, "an event of the wait list is not valid");
}

void check_alignment(const RangeArgument &range, cl_device_id device) {
    const std::size_t origin = root_buffer_of(range.buffer).second;
    if (origin == 0) return;
    const std::size_t alignment =
        query<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN).value_or(8) / 8;
    if (alignment != 0 && origin % alignment != 0)
        throw Error(
            CL_MISALIGNED_SUB_BUFFER_OFFSET,
            fmt::format(
                "the sub-buffer begins at byte {} of its buffer; expected a multiple of {}, the "
                "alignment of the queue's device",
                origin, alignment));
}

void check_host_access(const RangeArgument &range) {
    const cl_mem_flags flags = query<cl_mem_flags>(range.buffer, CL_MEM_FLAGS).value_or(0);
    const bool read = reads_device(range.direction);
    const cl_mem_flags forbidden =
        CL_MEM_HOST_NO_ACCESS | (read ? CL_MEM_HOST_WRITE_ONLY : CL_MEM_HOST_READ_ONLY);
    if ((flags & forbidden) != 0)
        throw Error(CL_INVALID_OPERATION,
                    fmt::format("the buffer was created with {} and cannot be {}",
                                (flags & CL_MEM_HOST_NO_ACCESS) != 0 ? "CL_MEM_HOST_NO_ACCESS"
                                : read                               ? "CL_MEM_HOST_WRITE_ONLY"
                                                                     : "CL_MEM_HOST_READ_ONLY",
                                read ? "read" : "written"));
}

}  // namespace

Extent extent_of(const RangeArgument &range) {
    const auto [buffer, origin] = root_buffer_of(range.buffer);
    const std::size_t begin = origin + range.offset;
    return {buffer, begin, begin + range.extent()};
}

void check_not_failed(const CommandArguments &command) {
    if (const cl_int status = first_failure(command.events()); status < 0)
        throw Error(
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
            fmt::format("an event of the wait list failed with status {}", status_text(status)));
}

QueueInfo check_command(const CommandArguments &command, std::span<RangeArgument> ranges,
                        bool in_place) {
    const QueueInfo queue = queue_info(command.queue);
    for (const RangeArgument &range : ranges) check_buffer(range);
    check_contexts(queue, command, ranges);
    for (RangeArgument &range : ranges) check_bounds(range);
    if (ranges.size() == 2 && !in_place) check_overlap(ranges[0], ranges[1]);
    check_wait_list(command);
    for (const RangeArgument &range : ranges) check_alignment(range, queue.device);
    for (const RangeArgument &range : ranges) check_host_access(range);
    return queue;
}

}  // namespace cldist
