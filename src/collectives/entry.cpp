// The entry points of CL/cl_ext_collective.h. They check arguments and enqueue a schedule's steps.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <CL/cl_ext_collective.h>
#include <fmt/format.h>

#include "base/error_code.hpp"
#include "collectives/boundary.hpp"
#include "collectives/operators.hpp"
#include "collectives/runner.hpp"
#include "collectives/schedule.hpp"
#include "ocl/query.hpp"

using namespace cldist;
using namespace cldist::collectives;

namespace {

struct Events {
    cl_uint number;
    const cl_event *list;
    cl_event *event;

    [[nodiscard]] std::span<const cl_event> waits() const {
        return list == nullptr ? std::span<const cl_event>{} : std::span(list, number);
    }
};

/// The sources or destinations of a call. `offsets` may be NULL. check_objects() fills `memory`.
struct Buffers {
    const cl_mem *list;
    const size_t *offsets;
    std::size_t count;
    std::vector<Memory> memory{};

    [[nodiscard]] const Memory &at(std::size_t i) const { return memory[i]; }
};

/// How elements are combined: with the program's kernel, with a kernel of the library for a
/// datatype and an operator, or not at all.
struct Combination {
    std::size_t element = 1;
    cl_kernel kernel = nullptr;
    std::optional<std::pair<cl_channel_type, cl_reduction_op>> datatype_and_op{};
};

struct Call {
    Kind kind;
    std::size_t n;
    std::span<const cl_command_queue> queues;
    Buffers sources;
    Buffers destinations;
    std::size_t bytes;
    Events events;
    Combination combination{};
};

std::size_t times(std::size_t n, std::size_t bytes) {
    std::size_t all = 0;
    if (__builtin_mul_overflow(n, bytes, &all))
        throw Error(CL_INVALID_VALUE,
                    fmt::format("{} blocks of {} bytes exceed the address space", n, bytes));
    return all;
}

std::size_t source_size(const Call &call) {
    const bool blocks = call.kind == Kind::scatter || call.kind == Kind::all_to_all ||
                        call.kind == Kind::reduce_scatter;
    return blocks ? times(call.n, call.bytes) : call.bytes;
}
std::size_t destination_size(const Call &call) {
    const bool blocks =
        call.kind == Kind::gather || call.kind == Kind::all_gather || call.kind == Kind::all_to_all;
    return blocks ? times(call.n, call.bytes) : call.bytes;
}

void check_lists(const Call &call) {
    if (call.n == 0)
        throw Error(CL_INVALID_VALUE, "the number of buffers is 0; expected at least 1");
    if (call.queues.data() == nullptr || call.sources.list == nullptr ||
        call.destinations.list == nullptr)
        throw Error(CL_INVALID_VALUE, "a list of queues or buffers is NULL");
}

// Checks the objects and fills Buffers::memory. Returns their common context.
cl_context check_objects(Call &call) {
    for (const cl_command_queue queue : call.queues)
        if (queue == nullptr || !query<cl_context>(queue, CL_QUEUE_CONTEXT))
            throw Error(CL_INVALID_COMMAND_QUEUE, "a command queue is not valid");
    for (Buffers *buffers : {&call.sources, &call.destinations})
        for (std::size_t i = 0; i < buffers->count; ++i) {
            const cl_mem buffer = buffers->list[i];
            const auto type = query<cl_mem_object_type>(buffer, CL_MEM_TYPE);
            if (buffer == nullptr || type != CL_MEM_OBJECT_BUFFER)
                throw Error(CL_INVALID_MEM_OBJECT,
                            fmt::format("memory object {} of a list is not a valid buffer", i));
            const auto [root, origin] = root_buffer_of(buffer);
            buffers->memory.push_back(
                {buffer, buffers->offsets == nullptr ? 0 : buffers->offsets[i],
                 query<std::size_t>(buffer, CL_MEM_SIZE).value_or(0), root, origin});
        }
    cl_context const context =
        query<cl_context>(call.queues.front(), CL_QUEUE_CONTEXT).value_or(nullptr);
    for (const cl_command_queue queue : call.queues)
        if (query<cl_context>(queue, CL_QUEUE_CONTEXT) != context)
            throw Error(CL_INVALID_CONTEXT, "the queues belong to different contexts");
    for (const Buffers *buffers : {&call.sources, &call.destinations})
        for (std::size_t i = 0; i < buffers->count; ++i)
            if (query<cl_context>(buffers->list[i], CL_MEM_CONTEXT) != context)
                throw Error(
                    CL_INVALID_CONTEXT,
                    fmt::format("buffer {} of a list and the queues belong to different contexts",
                                i));
    for (const cl_event event : call.events.waits()) {
        const auto of =
            event == nullptr ? std::nullopt : query<cl_context>(event, CL_EVENT_CONTEXT);
        if (of && *of != context)
            throw Error(CL_INVALID_CONTEXT,
                        "an event of the wait list and the queues belong to different contexts");
    }
    return context;
}

void check_events(const Events &events) {
    if ((events.list == nullptr) != (events.number == 0))
        throw Error(CL_INVALID_EVENT_WAIT_LIST,
                    fmt::format("num_events_in_wait_list is {}, but event_wait_list is {}",
                                events.number, events.list == nullptr ? "NULL" : "not NULL"));
    for (const cl_event event : events.waits())
        if (event == nullptr || !query<cl_context>(event, CL_EVENT_CONTEXT))
            throw Error(CL_INVALID_EVENT_WAIT_LIST, "an event of the wait list is not valid");
}

void check_range(const Memory &memory, std::size_t size, std::size_t element) {
    if (memory.offset > memory.size || size > memory.size - memory.offset)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("offset {} and size {} exceed the buffer of {} bytes",
                                memory.offset, size, memory.size));
    if (memory.offset % element != 0 || size % element != 0)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("offset {} or size {} is not a multiple of the element's {} bytes",
                                memory.offset, size, element));
}

bool overlap(const Memory &a, std::size_t a_size, const Memory &b, std::size_t b_size) {
    return a.root == b.root && a.offset_in_root() < b.offset_in_root() + b_size &&
           b.offset_in_root() < a.offset_in_root() + a_size;
}

[[noreturn]] void refuse_overlap() {
    throw Error(CL_MEM_COPY_OVERLAP, "ranges overlap in a way that is not an in-place operation");
}

// Returns true if a destination is the same memory as its source. Throws for any other overlap.
bool check_overlap(const Call &call) {
    const std::size_t given = source_size(call);
    const std::size_t got = destination_size(call);
    bool in_place = false;
    for (std::size_t i = 0; i < call.destinations.count; ++i) {
        const Memory to = call.destinations.at(i);
        for (std::size_t k = 0; k < i; ++k)
            if (overlap(to, got, call.destinations.at(k), got)) refuse_overlap();
        for (std::size_t k = 0; k < call.sources.count; ++k) {
            const Memory from = call.sources.at(k);
            if (!overlap(to, got, from, given)) continue;
            const bool belong = call.sources.count == 1 || call.destinations.count == 1 || i == k;
            std::size_t source = from.offset_in_root();
            std::size_t destination = to.offset_in_root();
            if (call.kind == Kind::scatter) source += i * call.bytes;
            if (call.kind == Kind::gather || call.kind == Kind::all_gather)
                destination += k * call.bytes;
            if (!belong || source != destination) refuse_overlap();
            in_place = true;
        }
    }
    return in_place;
}

// The devices' processes or hosts (`param`). Empty unless a cluster platform has several processes.
std::vector<cl_uint> places_of(std::span<const cl_command_queue> queues, cl_device_info param) {
    std::vector<cl_uint> all;
    for (const cl_command_queue queue : queues) {
        const auto device = query<cl_device_id>(queue, CL_QUEUE_DEVICE).value_or(nullptr);
        const auto place = query<cl_uint>(device, param);
        if (!place) return {};
        all.push_back(*place);
    }
    return all;
}

void run_steps(const Call &call, const Schedule &schedule, cl_context context, cl_kernel kernel,
               Runner &runner) {
    std::vector<Mem> own(schedule.own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
        if (schedule.own[i] == 0) continue;
        own[i] = create("clCreateBuffer", clCreateBuffer, context, CL_MEM_READ_WRITE,
                        schedule.own[i], nullptr);
    }
    const auto memory = [&](const Place &place) {
        cl_mem const mine = place.role == Role::own ? own[place.index].get() : nullptr;
        Memory found = place.role == Role::own ? Memory{mine, 0, schedule.own[place.index], mine, 0}
                       : place.role == Role::source ? call.sources.at(place.index)
                                                    : call.destinations.at(place.index);
        found.offset += place.offset;
        return found;
    };
    const auto queue_of = [&](std::size_t place) {
        return std::min(place, call.queues.size() - 1);
    };
    for (const Step &step : schedule.steps) {
        const std::size_t queue = queue_of(step.queue);
        const std::size_t from_queue = queue_of(step.from.index);
        if (step.combines)
            runner.combine(queue, kernel, call.combination.kernel == nullptr,
                           call.combination.element, memory(step.to), from_queue, memory(step.from),
                           step.size);
        else
            runner.copy(queue, memory(step.to), from_queue, memory(step.from), step.size);
    }
}

void give(const Events &events, Event event) {
    if (events.event != nullptr) *events.event = event.give();
}

// On local devices, one queue is faster than several for up to this many bytes.
constexpr std::size_t small = std::size_t{64} << 10U;

void run(Call call) {
    check_lists(call);
    cl_context const context = check_objects(call);
    check_events(call.events);
    Combination &combination = call.combination;
    if (combination.datatype_and_op)
        combination.element = element_size(combination.datatype_and_op->first);
    for (std::size_t i = 0; i < call.sources.count; ++i)
        check_range(call.sources.at(i), source_size(call), combination.element);
    for (std::size_t i = 0; i < call.destinations.count; ++i)
        check_range(call.destinations.at(i), destination_size(call), combination.element);
    // Calls that may fail come before the first command is enqueued.
    std::optional<Operator> op;
    cl_kernel kernel = combination.kernel;
    if (kernel != nullptr &&
        query<cl_context>(kernel, CL_KERNEL_CONTEXT).value_or(context) != context)
        throw Error(CL_INVALID_CONTEXT, "the kernel and the queues belong to different contexts");
    if (const auto &of = combination.datatype_and_op; of)
        kernel = op.emplace(context, of->first, of->second).kernel();
    // A broadcast sends its bytes to each host once. The host distributes them.
    const cl_device_info param =
        call.kind == Kind::broadcast ? CL_DEVICE_HOST_DIST : CL_DEVICE_RANK_DIST;
    Task task{call.kind,           call.n,
              call.bytes,          combination.element,
              check_overlap(call), places_of(call.queues, param)};
    const bool on_cluster = !task.processes.empty();
    if (task.processes.size() != task.n) task.processes.clear();  // a single queue runs all steps
    const Schedule schedule =
        make_schedule(task, choose(task.kind, runs_of(task).size(), task.n, task.bytes));
    Runner runner(call.queues, call.events.waits(), on_cluster,
                  !on_cluster && call.bytes <= small / call.n, call.events.event != nullptr);
    run_steps(call, schedule, context, kernel, runner);
    give(call.events, runner.end());
}

Combination of_datatype(cl_channel_type datatype, cl_reduction_op op) {
    return {1, nullptr, {{datatype, op}}};
}

Combination with_kernel(std::size_t element, cl_kernel kernel) {
    if (element == 0) throw Error(CL_INVALID_VALUE, "element_size is 0; expected at least 1");
    if (kernel == nullptr || query<cl_uint>(kernel, CL_KERNEL_NUM_ARGS) != 5U)
        throw Error(CL_INVALID_KERNEL, "the kernel is not valid, or does not have five arguments");
    return {element, kernel};
}

void run(Kind kind, std::size_t n, std::span<const cl_command_queue> queues, const Buffers &sources,
         const Buffers &destinations, std::size_t bytes, const Events &events,
         const Combination &combination = {}) {
    run({kind, n, queues, sources, destinations, bytes, events, combination});
}

/// A copy of one block. `size` is at least 1.
struct Block {
    std::size_t queue;
    Memory to;
    std::size_t from_queue;
    Memory from;
    std::size_t size;
};

// Throws if a destination overlaps a source or another destination.
void refuse_overlaps(std::span<const Block> blocks) {
    struct Range {
        std::uintptr_t root;
        std::size_t begin;
        std::size_t end;
        bool written;
    };
    std::vector<Range> ranges;
    for (const Block &block : blocks)
        for (const Memory *memory : {&block.from, &block.to}) {
            const std::size_t begin = memory->offset_in_root();
            ranges.push_back({reinterpret_cast<std::uintptr_t>(memory->root), begin,
                              begin + block.size, memory == &block.to});
        }
    std::ranges::sort(ranges, {}, [](const Range &a) { return std::pair(a.root, a.begin); });
    // The largest ends of the ranges before the current one, in the same memory.
    std::size_t end = 0;
    std::size_t end_of_written = 0;
    std::uintptr_t root = 0;
    for (const Range &range : ranges) {
        if (std::exchange(root, range.root) != range.root) end = end_of_written = 0;
        if (range.begin < (range.written ? end : end_of_written)) refuse_overlap();
        end = std::max(end, range.end);
        if (range.written) end_of_written = std::max(end_of_written, range.end);
    }
}

/// An all-to-all with a size for each block.
void run_uneven(Call call, const size_t *sizes) {
    check_lists(call);
    if (sizes == nullptr || call.sources.offsets == nullptr || call.destinations.offsets == nullptr)
        throw Error(CL_INVALID_VALUE, "a list of sizes or offsets is NULL");
    check_objects(call);
    check_events(call.events);
    std::vector<Block> blocks;
    std::size_t all = 0;
    // In each step, each destination reads from a different source.
    for (std::size_t step = 0; step < call.n; ++step)
        for (std::size_t j = 0; j < call.n; ++j) {
            const std::size_t i = (j + step) % call.n;
            const std::size_t at = i * call.n + j;
            if (sizes[at] == 0) continue;
            Memory to = call.destinations.at(j);
            Memory from = call.sources.at(i);
            to.offset = call.destinations.offsets[at];
            from.offset = call.sources.offsets[at];
            blocks.push_back({j, to, i, from, sizes[at]});
            all += sizes[at];
        }
    for (const Block &block : blocks) {
        check_range(block.from, block.size, 1);
        check_range(block.to, block.size, 1);
    }
    refuse_overlaps(blocks);
    const bool on_cluster = !places_of(call.queues, CL_DEVICE_RANK_DIST).empty();
    Runner runner(call.queues, call.events.waits(), on_cluster, !on_cluster && all <= small,
                  call.events.event != nullptr);
    for (const Block &block : blocks)
        runner.copy(block.queue, block.to, block.from_queue, block.from, block.size);
    give(call.events, runner.end());
}

}  // namespace

extern "C" {

cl_int clEnqueueBroadcastBuffer(const cl_command_queue *cmd_queue_list, cl_mem src_buffer,
                                cl_uint num_dst_buffers, const cl_mem *dst_buffer_list,
                                size_t src_offset, const size_t *dst_offset_list,
                                size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueBroadcastBuffer", [&] {
        run(Kind::broadcast, num_dst_buffers, {cmd_queue_list, num_dst_buffers},
            {&src_buffer, &src_offset, 1}, {dst_buffer_list, dst_offset_list, num_dst_buffers},
            bytes_to_copy, {num_events_in_wait_list, event_wait_list, event});
    });
}

cl_int clEnqueueScatterBuffer(const cl_command_queue *cmd_queue_list, cl_mem src_buffer,
                              cl_uint num_dst_buffers, const cl_mem *dst_buffer_list,
                              size_t src_offset, const size_t *dst_offset_list,
                              size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                              const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueScatterBuffer", [&] {
        run(Kind::scatter, num_dst_buffers, {cmd_queue_list, num_dst_buffers},
            {&src_buffer, &src_offset, 1}, {dst_buffer_list, dst_offset_list, num_dst_buffers},
            bytes_to_copy, {num_events_in_wait_list, event_wait_list, event});
    });
}

cl_int clEnqueueGatherBuffer(cl_command_queue cmd_queue, cl_uint num_src_buffers,
                             const cl_mem *src_buffer_list, cl_mem dst_buffer,
                             const size_t *src_offset_list, size_t dst_offset, size_t bytes_to_copy,
                             cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                             cl_event *event) {
    return at_boundary("clEnqueueGatherBuffer", [&] {
        run(Kind::gather, num_src_buffers, {&cmd_queue, 1},
            {src_buffer_list, src_offset_list, num_src_buffers}, {&dst_buffer, &dst_offset, 1},
            bytes_to_copy, {num_events_in_wait_list, event_wait_list, event});
    });
}

cl_int clEnqueueAllGatherBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list,
                                size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueAllGatherBuffer", [&] {
        run(Kind::all_gather, num_buffers, {cmd_queue_list, num_buffers},
            {src_buffer_list, src_offset_list, num_buffers},
            {dst_buffer_list, dst_offset_list, num_buffers}, bytes_to_copy,
            {num_events_in_wait_list, event_wait_list, event});
    });
}

cl_int clEnqueueAlltoAllBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                               const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                               const size_t *src_offset_list, const size_t *dst_offset_list,
                               size_t bytes_to_copy, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueAlltoAllBuffer", [&] {
        run(Kind::all_to_all, num_buffers, {cmd_queue_list, num_buffers},
            {src_buffer_list, src_offset_list, num_buffers},
            {dst_buffer_list, dst_offset_list, num_buffers}, bytes_to_copy,
            {num_events_in_wait_list, event_wait_list, event});
    });
}

cl_int clEnqueueAlltoAllVBuffer(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,
                                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,
                                const size_t *src_offset_list, const size_t *dst_offset_list,
                                const size_t *bytes_to_copy_list, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueAlltoAllVBuffer", [&] {
        run_uneven({Kind::all_to_all,
                    num_buffers,
                    {cmd_queue_list, num_buffers},
                    {src_buffer_list, src_offset_list, num_buffers},
                    {dst_buffer_list, dst_offset_list, num_buffers},
                    0,
                    {num_events_in_wait_list, event_wait_list, event}},
                   bytes_to_copy_list);
    });
}

// Each reduction has three functions. `FORM` defines one of them.
#define CLDIST_REDUCTIONS(FORM, name, kind)                                               \
    FORM(name, kind, of_datatype(datatype, CL_REDUCTION_SUM), cl_channel_type datatype)   \
    FORM(name##WithOp, kind, of_datatype(datatype, op), cl_channel_type datatype,         \
         cl_reduction_op op)                                                              \
    FORM(name##WithKernel, kind, with_kernel(element_size, combine), size_t element_size, \
         cl_kernel combine)

#define CLDIST_MANY_TO_ONE(name, kind, combination, ...)                                         \
    cl_int name(cl_command_queue cmd_queue, cl_uint num_src_buffers,                             \
                const cl_mem *src_buffer_list, cl_mem dst_buffer, const size_t *src_offset_list, \
                size_t dst_offset, size_t bytes_to_copy, __VA_ARGS__,                            \
                cl_uint num_events_in_wait_list, const cl_event *event_wait_list,                \
                cl_event *event) {                                                               \
        return at_boundary(#name, [&] {                                                          \
            run(kind, num_src_buffers, {&cmd_queue, 1},                                          \
                {src_buffer_list, src_offset_list, num_src_buffers},                             \
                {&dst_buffer, &dst_offset, 1}, bytes_to_copy,                                    \
                {num_events_in_wait_list, event_wait_list, event}, combination);                 \
        });                                                                                      \
    }
#define CLDIST_MANY_TO_MANY(name, kind, combination, ...)                           \
    cl_int name(const cl_command_queue *cmd_queue_list, cl_uint num_buffers,        \
                const cl_mem *src_buffer_list, const cl_mem *dst_buffer_list,       \
                const size_t *src_offset_list, const size_t *dst_offset_list,       \
                size_t bytes_to_copy, __VA_ARGS__, cl_uint num_events_in_wait_list, \
                const cl_event *event_wait_list, cl_event *event) {                 \
        return at_boundary(#name, [&] {                                             \
            run(kind, num_buffers, {cmd_queue_list, num_buffers},                   \
                {src_buffer_list, src_offset_list, num_buffers},                    \
                {dst_buffer_list, dst_offset_list, num_buffers}, bytes_to_copy,     \
                {num_events_in_wait_list, event_wait_list, event}, combination);    \
        });                                                                         \
    }

CLDIST_REDUCTIONS(CLDIST_MANY_TO_ONE, clEnqueueReduceBuffer, Kind::reduce)
CLDIST_REDUCTIONS(CLDIST_MANY_TO_MANY, clEnqueueAllReduceBuffer, Kind::all_reduce)
CLDIST_REDUCTIONS(CLDIST_MANY_TO_MANY, clEnqueueReduceScatterBuffer, Kind::reduce_scatter)
CLDIST_REDUCTIONS(CLDIST_MANY_TO_MANY, clEnqueueScanBuffer, Kind::scan)

}  // extern "C"
