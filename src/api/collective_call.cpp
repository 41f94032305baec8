#include "api/collective_call.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>

#include "api/event_table.hpp"
#include "api/kernel_waits.hpp"
#include "api/peer.hpp"
#include "api/run_command.hpp"
#include "api/starting.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "events/failure.hpp"
#include "ocl/query.hpp"

namespace cldist {

CollectiveGroup::CollectiveGroup(MPI_Comm handle)
    : runtime(Runtime::current()),
      comm(runtime->communicators().find(handle)),
      size(comm->peers()) {
    check_intra(handle);
    PMPI_Comm_rank(handle, &rank);
}

void CollectiveGroup::check_root(int root) const {
    if (root < 0 || root >= size)
        throw Error(CL_INVALID_RANK,
                    fmt::format("root {} is not a rank of the communicator; expected 0 to {}", root,
                                size - 1));
}

namespace {

bool contains(const Extent &outer, const Extent &inner) {
    return outer.begin <= inner.begin && inner.end <= outer.end;
}

bool is_in_place(const CollectiveArguments &call) {
    if (!call.send || !call.recv) return false;
    const Extent send = extent_of(call.send->range);
    const Extent recv = extent_of(call.recv->range);
    const bool within = contains(recv, send) || contains(send, recv);
    if (send.buffer != recv.buffer || send.begin == send.end || recv.begin == recv.end || !within)
        return false;
    const auto same = [](const Span &a, const Span &b) {
        return a.offset == b.offset && a.size == b.size;
    };
    const std::vector<Span> &parts = call.send->parts;
    return static_cast<std::ptrdiff_t>(send.begin - recv.begin) == call.in_place_at &&
           (call.what.kind != CollectiveKind::alltoallv ||
            std::equal(parts.begin(), parts.end(), call.recv->parts.begin(), same));
}

/// Returns true if no byte is both sent and received. The ranges may overlap nevertheless, because
/// parts may be in gaps of the other side.
bool are_apart(const SideArgument &a, const SideArgument &b) {
    const Extent a_extent = extent_of(a.range);
    const Extent b_extent = extent_of(b.range);
    if (a_extent.buffer != b_extent.buffer) return true;
    const std::vector<Span> left = pieces_of(a.parts, a.range.size);
    const std::vector<Span> right = pieces_of(b.parts, b.range.size);
    for (auto x = left.begin(), y = right.begin(); x != left.end() && y != right.end();) {
        const std::size_t x_begin = a_extent.begin + x->offset, x_end = x_begin + x->size;
        const std::size_t y_begin = b_extent.begin + y->offset, y_end = y_begin + y->size;
        if (x_begin < y_end && y_begin < x_end) return false;
        ++(x_end < y_end ? x : y);
    }
    return true;
}

/// Returns true if kernels can access elements of the range as vectors. The program's own memory
/// (CL_MEM_USE_HOST_PTR) may be aligned less.
bool are_aligned(const RangeArgument &range, std::size_t element) {
    const void *const memory = query<void *>(range.buffer, CL_MEM_HOST_PTR).value_or(nullptr);
    return (reinterpret_cast<std::uintptr_t>(memory) + range.offset) % element == 0;
}

class CollectiveCall final : public CheckedCall {
public:
    explicit CollectiveCall(CollectiveArguments call) : call_(std::move(call)) {
        arguments = call_.command;
        std::vector<RangeArgument> ranges;
        for (const std::optional<SideArgument> *side : {&call_.send, &call_.recv})
            if (*side) ranges.push_back((*side)->range);
        const bool may_overlap =
            is_in_place(call_) || (call_.send && call_.recv && are_apart(*call_.send, *call_.recv));
        queue = check_command(arguments, ranges, may_overlap);
        std::vector<cl_mem> buffers;
        for (const RangeArgument &range : ranges) buffers.push_back(range.buffer);
        resources = resources_of(queue, buffers);
    }

    void run() {
        if (run_ordered()) return;
        if (const Status status = run_command(*this); !status.ok()) throw Error(status);
    }

    [[nodiscard]] ProgressThread &progress_thread() const override {
        return call_.group.runtime->progress_thread();
    }

    /// Overlapping ranges have one mapping.
    std::span<Mapping> make_mappings(Drives /*driver*/) override {
        if (const std::optional<RangeArgument> both = overlapping()) {
            add_mapping(*both, CL_MAP_READ | CL_MAP_WRITE);
        } else {
            if (call_.send) add_mapping(call_.send->range, CL_MAP_READ);
            if (call_.recv) add_mapping(call_.recv->range, CL_MAP_WRITE);
        }
        return mappings_;
    }

    /// Adds the command to the per-communicator FIFO.
    [[nodiscard]] Operations make_operations(Drives driver) const override {
        const cl_command_queue copying = driver == Drives::caller_in_queue ? queue.queue : nullptr;
        return only(make_collective(call_.what, made(call_.send, copying),
                                    made(call_.recv, copying), call_.group.comm->collectives(),
                                    driver == Drives::progress_thread
                                        ? call_.group.runtime->progress_driver()
                                        : caller_driver()));
    }

    /// The command takes part even if its wait list failed.
    void drive_here(Command &command, const Status &gate) const override {
        command.start(gate);
        drive(command, caller_driver());
    }

    [[nodiscard]] bool needs_gate(bool has_mappings) const override {
        return !has_mappings || arguments.num_events != 0 || !progress_thread().idle();
    }

    [[nodiscard]] bool writes() const override { return call_.recv.has_value(); }

private:
    [[nodiscard]] CollectiveSide made(const std::optional<SideArgument> &side,
                                      cl_command_queue copying) const {
        if (!side) return {};
        const auto [buffer, offset] = held(side->range, *resources);
        return {{resources, Mem::share(buffer), offset, side->range.size, mapped(side->range),
                 Queue::share(copying)},
                side->parts};
    }

    /// Returns true if a kernel of this process may carry out the command.
    [[nodiscard]] bool may_order(DeviceCollectives &devices) const {
        // In place, the result replaces elements that other work-groups have not read yet.
        if (call_.what.kind == CollectiveKind::reduce_scatter && is_in_place(call_)) return false;
        for (const std::optional<SideArgument> *side : {&call_.send, &call_.recv}) {
            if (!*side) continue;
            const RangeArgument &range = (*side)->range;
            const bool aligned =
                call_.what.op == MPI_OP_NULL || are_aligned(range, call_.what.element);
            if (!aligned || !open_to_kernels(range)) return false;
        }
        return config().check != Switch::on &&
               may_wait_in_kernel(queue, arguments, call_.group.comm->handle()) &&
               devices.ready(resources, queue.queue);
    }

    /// Path device: enqueues a kernel that carries out the command if the kernels of all processes
    /// may. Returns true if that is possible.
    bool run_ordered() {
        if (config().path != Path::device) return false;
        const auto line = call_.group.comm->collectives();
        DeviceCollectives *const devices = line->devices();
        const auto combination = combination_of(call_.what);
        if (devices == nullptr || !combination || !may_order(*devices)) return false;
        CollectiveSide send = made(call_.send, nullptr);
        CollectiveSide recv = made(call_.recv, nullptr);
        CollectiveWork work = devices->plan(call_.what, send, recv);
        auto made_ordered =
            std::make_unique<OrderedCollective>(devices->links(), queue.queue, line.get());
        OrderedCollective &ordered = *made_ordered;
        const cl_mem in =
            send.range.size != 0 ? send.range.buffer.get() : devices->links()->some_buffer();
        const cl_mem out =
            recv.range.size != 0 ? recv.range.buffer.get() : devices->links()->some_buffer();
        const cl_kernel kernel = devices->links()->prepare(work, *combination);
        if (kernel == nullptr || !ordered.command.reserve(MPI_UNDEFINED, queue.queue)) return false;
        Enqueueing lock(queue);
        if (!progress_thread().positions_taken()) return false;
        Event event;
        std::unique_ptr<Command> command;
        try {
            ordered.command.follow();
            Operations operations = only(make_collective(
                call_.what, std::move(send), std::move(recv), line,
                arguments.blocking == CL_FALSE ? call_.group.runtime->progress_driver()
                                               : caller_driver(),
                std::move(made_ordered), &work));
            operations.back()->announce();
            std::span<const cl_event> wait_list = arguments.events();
            const std::uint64_t until = now_ns() + moment_ns;
            while (!(ordered.on_devices = devices->decision(ordered.number, call_.what)) &&
                   now_ns() < until) {
            }
            if (!ordered.on_devices.value_or(false))
                ordered.command.hold(queue, std::exchange(wait_list, {}));
            ordered.command.enqueue(work, kernel, in, out, wait_list,
                                    arguments.event != nullptr ? event.out() : nullptr);
            if (arguments.blocking != CL_FALSE) clFlush(queue.queue);
            if (arguments.event != nullptr) event_table().add(event.get(), operations);
            command = std::make_unique<Command>(std::move(operations), nullptr, queue.device);
            lock.unlock();
            if (arguments.blocking == CL_FALSE) progress_thread().submit(std::move(command), {});
        } catch (const std::exception &error) {
            end_job(error.what(), "because the other processes may already wait in kernels");
        }
        if (command != nullptr) {
            drive_here(*command, {});
            if (event) wait_for(event.get());
        }
        if (arguments.event != nullptr) *arguments.event = event.give();
        return true;
    }

    /// The bytes from the first to the last byte of both sides, if their ranges overlap.
    [[nodiscard]] std::optional<RangeArgument> overlapping() const {
        if (!call_.send || !call_.recv) return {};
        const RangeArgument &send = call_.send->range;
        const RangeArgument &recv = call_.recv->range;
        const Extent a = extent_of(send);
        const Extent b = extent_of(recv);
        if (a.buffer != b.buffer || a.begin >= b.end || b.begin >= a.end) return {};
        // If one range contains the other, use its buffer, which may be a sub-buffer.
        if (contains(b, a)) return recv;
        if (contains(a, b)) return send;
        const std::size_t begin = std::min(a.begin, b.begin);
        return RangeArgument{a.buffer, begin, std::max(a.end, b.end) - begin, Direction::recv};
    }

    void add_mapping(const RangeArgument &range, cl_map_flags flags) {
        if (range.size == 0 || !may_map(range, *resources, nullptr)) return;
        mappings_.push_back({range.buffer, range.offset, range.size, flags});
        mapped_.push_back(extent_of(range));
    }

    /// The address of the range, or null if it has no mapping.
    [[nodiscard]] std::byte *mapped(const RangeArgument &range) const {
        const Extent extent = extent_of(range);
        for (std::size_t i = 0; i < mappings_.size(); ++i) {
            const Extent &mapped = mapped_[i];
            if (mappings_[i].memory == nullptr || extent.buffer != mapped.buffer) continue;
            if (contains(mapped, extent))
                return static_cast<std::byte *>(mappings_[i].memory) +
                       (extent.begin - mapped.begin);
        }
        return nullptr;
    }

    const CollectiveArguments call_;
    std::vector<Mapping> mappings_;
    std::vector<Extent> mapped_;  ///< one per mapping
};

}  // namespace

void run_collective(CollectiveArguments call) { CollectiveCall(std::move(call)).run(); }

}  // namespace cldist
