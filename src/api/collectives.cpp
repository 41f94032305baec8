// Collective commands. The section of that name in the header describes them.

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
#include "api/kernel_waits.hpp"
#include "api/run_command.hpp"
#include "api/starting.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "events/failure.hpp"
#include "mpi_interop/collective_operations.hpp"
#include "mpi_interop/mpi_status.hpp"
#include "mpi_interop/runtime.hpp"
#include "ocl/query.hpp"

using namespace cldist;

namespace {

/// The elements from an offset in a buffer on. It replaces the address in MPI's calls.
struct Place {
    cl_mem buffer;
    std::size_t offset;  ///< bytes
    std::size_t count;   ///< elements; kinds with a size per process ("v") use `counts`
    MPI_Datatype type;
    const std::size_t *counts = nullptr;
    const std::size_t *displacements = nullptr;  ///< elements
};

/// The communicator of a collective and this process's rank in it.
struct Group {
    std::shared_ptr<Runtime> runtime;
    std::shared_ptr<const Communicator> comm;
    int rank = 0;
    int size = 0;

    explicit Group(MPI_Comm handle)
        : runtime(Runtime::current()),
          comm(runtime->communicators().find(handle)),
          size(comm->peers()) {
        int inter = 0;
        PMPI_Comm_test_inter(handle, &inter);
        if (inter != 0)
            throw Error(
                CL_INVALID_COMMUNICATOR,
                "the communicator is an inter-communicator; expected an intra-communicator");
        PMPI_Comm_rank(handle, &rank);
    }
    void check_root(int root) const {
        if (root < 0 || root >= size)
            throw Error(CL_INVALID_RANK,
                        fmt::format("root {} is not a rank of the communicator; expected 0 to {}",
                                    root, size - 1));
    }
};

bool predefined(MPI_Datatype type) {
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_DUP;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

/// Returns the bytes from one element to the next. Throws an Error if collectives refuse the type.
std::size_t element_of(MPI_Datatype type) {
    if (type == MPI_DATATYPE_NULL)
        throw Error(CL_INVALID_MPI_DATATYPE, "the datatype is MPI_DATATYPE_NULL");
    int size = 0;
    MPI_Aint begin = 0, extent = 0, true_begin = 0, true_extent = 0;
    check_mpi(PMPI_Type_size(type, &size), "MPI_Type_size");
    PMPI_Type_get_extent(type, &begin, &extent);
    PMPI_Type_get_true_extent(type, &true_begin, &true_extent);
    if (size <= 0)
        throw Error(CL_INVALID_MPI_DATATYPE,
                    "the datatype is empty; expected a datatype of at least one byte");
    const bool whole = begin == 0 && true_begin == 0 && extent == size && true_extent == size;
    if (!whole && !predefined(type))
        throw Error(CL_INVALID_MPI_DATATYPE,
                    fmt::format("the datatype has {} bytes in an extent of {} from {} on; expected "
                                "a datatype without gaps",
                                size, extent, begin));
    return static_cast<std::size_t>(extent);
}

std::size_t element_of_reduction(MPI_Datatype type, MPI_Op op) {
    const std::size_t element = element_of(type);
    if (!predefined(type))
        throw Error(CL_INVALID_MPI_DATATYPE, "the datatype of a reduction is not predefined");
    const std::array known{MPI_MAX, MPI_MIN, MPI_SUM,  MPI_PROD, MPI_LAND,   MPI_BAND,
                           MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    if (std::find(known.begin(), known.end(), op) == known.end())
        throw Error(CL_INVALID_MPI_OP, "the operator is not a predefined reduction operator");
    return element;
}

std::size_t bytes_of(std::size_t count, std::size_t element) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, element, &bytes))
        throw Error(
            CL_INVALID_VALUE,
            fmt::format("{} elements of {} bytes exceed the address space", count, element));
    return bytes;
}

/// A range of a buffer. For kinds with a size per process, also the parts of the processes.
struct Side {
    RangeArgument range;
    std::vector<Span> parts;
};

Side side_of(const Place &place, std::size_t element, Direction direction) {
    return {{place.buffer, place.offset, bytes_of(place.count, element), direction}, {}};
}

/// The same for kinds with counts and displacements.
Side uneven_side_of(const Place &place, std::size_t element, int processes, Direction direction) {
    if (place.counts == nullptr || place.displacements == nullptr)
        throw Error(CL_INVALID_VALUE, "the array of counts or of displacements is NULL");
    std::vector<Span> parts;
    std::size_t begin = SIZE_MAX;
    std::size_t end = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(processes); ++i) {
        const Span part{bytes_of(place.displacements[i], element),
                        bytes_of(place.counts[i], element)};
        parts.push_back(part);
        if (part.size == 0) continue;
        if (part.offset > SIZE_MAX - part.size)
            throw Error(CL_INVALID_VALUE, "a part exceeds the address space");
        begin = std::min(begin, part.offset);
        end = std::max(end, part.offset + part.size);
    }
    begin = std::min(begin, end);
    for (Span &part : parts) part.offset = part.size == 0 ? 0 : part.offset - begin;
    if (place.offset > SIZE_MAX - begin)
        throw Error(CL_INVALID_VALUE, "a part exceeds the address space");
    return {{place.buffer, place.offset + begin, end - begin, direction}, std::move(parts)};
}

/// The same for the parts of all processes.
Side side_of_all(const Place &place, bool uneven, std::size_t element, int processes,
                 Direction direction) {
    if (uneven) return uneven_side_of(place, element, processes, direction);
    Place all = place;
    all.count = bytes_of(place.count, static_cast<std::size_t>(processes));
    return side_of(all, element, direction);
}

/// Returns the counts of a reduce-scatter and their sum in elements.
std::pair<std::vector<std::size_t>, std::size_t> counts_of(const std::size_t *counts,
                                                           int processes) {
    if (counts == nullptr) throw Error(CL_INVALID_VALUE, "the array of counts is NULL");
    std::vector<std::size_t> all(counts, counts + processes);
    std::size_t sum = 0;
    for (const std::size_t count : all)
        if (__builtin_add_overflow(sum, count, &sum))
            throw Error(CL_INVALID_VALUE, "the sum of the counts exceeds the address space");
    return {std::move(all), sum};
}

/// The arguments of a call. `send` or `recv` is empty if this process does not send or receive.
struct Call {
    CommandArguments command;
    Group group;
    Collective what;
    std::optional<Side> send{};
    std::optional<Side> recv{};
    /// MPI_IN_PLACE: the send side begins this many bytes after the receive side, in one buffer.
    std::ptrdiff_t in_place_at = 0;
};

bool contains(const Extent &outer, const Extent &inner) {
    return outer.begin <= inner.begin && inner.end <= outer.end;
}

bool is_in_place(const Call &call) {
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

/// The ranges of the parts in the side's buffer, in ascending order.
std::vector<Span> parts_in_buffer(const Side &side) {
    const Extent extent = extent_of(side.range);
    std::vector<Span> parts = side.parts;
    if (parts.empty()) parts.push_back({0, side.range.size});
    std::erase_if(parts, [](const Span &part) { return part.size == 0; });
    for (Span &part : parts) part.offset += extent.begin;
    std::sort(parts.begin(), parts.end(),
              [](const Span &a, const Span &b) { return a.offset < b.offset; });
    return parts;
}

/// Returns true if no byte is both sent and received. The ranges may overlap nevertheless, because
/// parts may be in gaps of the other side.
bool are_apart(const Side &a, const Side &b) {
    if (extent_of(a.range).buffer != extent_of(b.range).buffer) return true;
    const std::vector<Span> left = parts_in_buffer(a);
    const std::vector<Span> right = parts_in_buffer(b);
    for (auto x = left.begin(), y = right.begin(); x != left.end() && y != right.end();) {
        if (x->offset < y->offset + y->size && y->offset < x->offset + x->size) return false;
        ++(x->offset + x->size < y->offset + y->size ? x : y);
    }
    return true;
}

class CollectiveCall final : public CheckedCall {
public:
    explicit CollectiveCall(Call call) : call_(std::move(call)) {
        arguments = call_.command;
        std::vector<RangeArgument> ranges;
        for (const std::optional<Side> *side : {&call_.send, &call_.recv})
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
        Operations operations;
        operations.push_back(make_collective(
            call_.what, made(call_.send, copying), made(call_.recv, copying),
            call_.group.comm->collectives(),
            driver == Drives::progress_thread ? call_.group.runtime->progress_driver()
                                              : caller_driver()));
        return operations;
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
    [[nodiscard]] CollectiveSide made(const std::optional<Side> &side,
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
        for (const std::optional<Side> *side : {&call_.send, &call_.recv}) {
            if (!*side) continue;
            const bool aligned =
                call_.what.op == MPI_OP_NULL || (*side)->range.offset % call_.what.element == 0;
            if (!aligned || !open_to_kernels((*side)->range)) return false;
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
        std::unique_lock lock(enqueueing_on(queue.queue));
        if (!progress_thread().positions_taken()) return false;
        Event event;
        std::unique_ptr<Command> command;
        try {
            ordered.command.follow();
            Operations operations;
            operations.push_back(make_collective(call_.what, std::move(send), std::move(recv), line,
                                                 arguments.blocking == CL_FALSE
                                                     ? call_.group.runtime->progress_driver()
                                                     : caller_driver(),
                                                 std::move(made_ordered), &work));
            operations.back()->announce();
            std::span<const cl_event> wait_list = arguments.events();
            const std::uint64_t until = now_ns() + moment_ns;
            while (!(ordered.on_devices = devices->decision(ordered.number)) && now_ns() < until) {
            }
            if (!ordered.on_devices.value_or(false))
                ordered.command.hold(queue, std::exchange(wait_list, {}));
            ordered.command.enqueue(work, kernel, in, out, wait_list,
                                    arguments.event != nullptr ? event.out() : nullptr);
            if (arguments.blocking != CL_FALSE) clFlush(queue.queue);
            if (arguments.event != nullptr) event_table().add(event.get(), operations);
            command = std::make_unique<Command>(std::move(operations), nullptr, queue.device);
        } catch (const Error &error) {
            end_job(error.status().message,
                    "because the other processes may already wait in kernels");
        }
        lock.unlock();
        if (arguments.blocking == CL_FALSE) {
            progress_thread().submit(std::move(command), {});
        } else {
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

    const Call call_;
    std::vector<Mapping> mappings_;
    std::vector<Extent> mapped_;  ///< one per mapping
};

void run(Call call) { CollectiveCall(std::move(call)).run(); }

/// Checks that this process sends and receives the same number of bytes to itself.
void check_parts(std::size_t given, std::size_t got) {
    if (given != got)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("this process's own part has {} bytes in the send range and {} in "
                                "the receive range; expected equal sizes",
                                given, got));
}

// These functions set the sides of this process and the distance that means MPI_IN_PLACE.

void run_reduction(Call call, CollectiveKind kind, int root, const Place &send, const Place &recv,
                   MPI_Op op) {
    if (kind == CollectiveKind::reduce) call.group.check_root(root);
    const std::size_t element = element_of_reduction(send.type, op);
    call.send = side_of(send, element, Direction::send);
    if (kind == CollectiveKind::allreduce || call.group.rank == root)
        call.recv = side_of(recv, element, Direction::recv);
    call.what = {kind, root, call.send->range.size, element, send.type, op};
    run(std::move(call));
}

// Gathers and scatters. Each process has one part, and the root or all processes have all parts.
void run_parts(Call call, CollectiveKind kind, int root, const Place &send, const Place &recv) {
    const bool scatters = kind == CollectiveKind::scatter || kind == CollectiveKind::scatterv;
    const bool for_all = kind == CollectiveKind::allgather || kind == CollectiveKind::allgatherv;
    const bool uneven = kind == CollectiveKind::gatherv || kind == CollectiveKind::allgatherv ||
                        kind == CollectiveKind::scatterv;
    if (!for_all) call.group.check_root(root);
    const Place &one = scatters ? recv : send;
    const Place &all = scatters ? send : recv;
    const bool has_all = for_all || call.group.rank == root;
    const std::size_t one_element = element_of(one.type);
    const std::size_t element = has_all ? element_of(all.type) : 0;
    const Side &one_side =
        (scatters ? call.recv : call.send)
            .emplace(side_of(one, one_element, scatters ? Direction::recv : Direction::send));
    const std::size_t part = one_side.range.size;
    if (has_all) {
        const auto rank = static_cast<std::size_t>(call.group.rank);
        const Side &side = (scatters ? call.send : call.recv)
                               .emplace(side_of_all(all, uneven, element, call.group.size,
                                                    scatters ? Direction::send : Direction::recv));
        const Span own =
            uneven ? side.parts[rank] : Span{rank * part, bytes_of(all.count, element)};
        check_parts(scatters ? own.size : part, scatters ? part : own.size);
        const auto distance = static_cast<std::ptrdiff_t>(own.offset);
        call.in_place_at = scatters ? -distance : distance;
    }
    call.what = {kind, root, part};
    run(std::move(call));
}

void run_alltoall(Call call, CollectiveKind kind, const Place &send, const Place &recv) {
    const bool uneven = kind == CollectiveKind::alltoallv;
    const auto rank = static_cast<std::size_t>(call.group.rank);
    const std::array elements{element_of(send.type), element_of(recv.type)};
    call.send = side_of_all(send, uneven, elements[0], call.group.size, Direction::send);
    call.recv = side_of_all(recv, uneven, elements[1], call.group.size, Direction::recv);
    if (uneven)
        check_parts(call.send->parts[rank].size, call.recv->parts[rank].size);
    else
        check_parts(call.send->range.size, call.recv->range.size);
    call.what = {kind, 0, call.send->range.size / static_cast<std::size_t>(call.group.size)};
    run(std::move(call));
}

}  // namespace

extern "C" {

cl_int clEnqueueBarrierMPI(cl_command_queue command_queue, cl_bool blocking, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event) {
    return at_boundary("clEnqueueBarrierMPI", [&] {
        run({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
             Group(comm),
             {CollectiveKind::barrier}});
    });
}

cl_int clEnqueueBcastBufferMPI(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               size_t offset, size_t count, MPI_Datatype datatype, int root,
                               MPI_Comm comm, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueBcastBufferMPI", [&] {
        Call call{{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                  Group(comm),
                  {CollectiveKind::bcast, root}};
        call.group.check_root(root);
        const bool gives = call.group.rank == root;
        Side side = side_of({buffer, offset, count, datatype}, element_of(datatype),
                            gives ? Direction::send : Direction::recv);
        call.what.bytes = side.range.size;
        (gives ? call.send : call.recv) = std::move(side);
        run(std::move(call));
    });
}

cl_int clEnqueueReduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                size_t recv_offset, size_t count, MPI_Datatype datatype, MPI_Op op,
                                int root, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueReduceBufferMPI", [&] {
        run_reduction({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                       Group(comm),
                       {}},
                      CollectiveKind::reduce, root, {send_buffer, send_offset, count, datatype},
                      {recv_buffer, recv_offset, count, datatype}, op);
    });
}

cl_int clEnqueueAllreduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                   size_t recv_offset, size_t count, MPI_Datatype datatype,
                                   MPI_Op op, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                   const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueAllreduceBufferMPI", [&] {
        run_reduction({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                       Group(comm),
                       {}},
                      CollectiveKind::allreduce, 0, {send_buffer, send_offset, count, datatype},
                      {recv_buffer, recv_offset, count, datatype}, op);
    });
}

cl_int clEnqueueReduceScatterBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                       cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                       size_t recv_offset, const size_t *recv_counts,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                       cl_uint num_events_in_wait_list,
                                       const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueReduceScatterBufferMPI", [&] {
        Call call{{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                  Group(comm),
                  {}};
        const std::size_t element = element_of_reduction(datatype, op);
        auto [counts, all] = counts_of(recv_counts, call.group.size);
        const std::size_t own = counts[static_cast<std::size_t>(call.group.rank)];
        call.send = side_of({send_buffer, send_offset, all, datatype}, element, Direction::send);
        call.recv = side_of({recv_buffer, recv_offset, own, datatype}, element, Direction::recv);
        call.what = {CollectiveKind::reduce_scatter,
                     0,
                     call.send->range.size,
                     element,
                     datatype,
                     op,
                     std::move(counts)};
        run(std::move(call));
    });
}

cl_int clEnqueueGatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                cl_bool blocking, size_t send_offset, size_t send_count,
                                MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                cl_event *event) {
    return at_boundary("clEnqueueGatherBufferMPI", [&] {
        run_parts({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                   Group(comm),
                   {}},
                  CollectiveKind::gather, root, {send_buffer, send_offset, send_count, send_type},
                  {recv_buffer, recv_offset, recv_count, recv_type});
    });
}

cl_int clEnqueueGathervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                 cl_bool blocking, size_t send_offset, size_t send_count,
                                 MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                 const size_t *recv_counts, const size_t *recv_displacements,
                                 MPI_Datatype recv_type, int root, MPI_Comm comm,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event) {
    return at_boundary("clEnqueueGathervBufferMPI", [&] {
        run_parts({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                   Group(comm),
                   {}},
                  CollectiveKind::gatherv, root, {send_buffer, send_offset, send_count, send_type},
                  {recv_buffer, recv_offset, 0, recv_type, recv_counts, recv_displacements});
    });
}

cl_int clEnqueueAllgatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, size_t send_count,
                                   MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                   size_t recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event) {
    return at_boundary("clEnqueueAllgatherBufferMPI", [&] {
        run_parts({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                   Group(comm),
                   {}},
                  CollectiveKind::allgather, 0, {send_buffer, send_offset, send_count, send_type},
                  {recv_buffer, recv_offset, recv_count, recv_type});
    });
}

cl_int clEnqueueAllgathervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                    cl_bool blocking, size_t send_offset, size_t send_count,
                                    MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                    const size_t *recv_counts, const size_t *recv_displacements,
                                    MPI_Datatype recv_type, MPI_Comm comm,
                                    cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueAllgathervBufferMPI", [&] {
        run_parts({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                   Group(comm),
                   {}},
                  CollectiveKind::allgatherv, 0, {send_buffer, send_offset, send_count, send_type},
                  {recv_buffer, recv_offset, 0, recv_type, recv_counts, recv_displacements});
    });
}

cl_int clEnqueueScatterBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                 cl_bool blocking, size_t send_offset, size_t send_count,
                                 MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                 size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                 cl_event *event) {
    return at_boundary("clEnqueueScatterBufferMPI", [&] {
        run_parts({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                   Group(comm),
                   {}},
                  CollectiveKind::scatter, root, {send_buffer, send_offset, send_count, send_type},
                  {recv_buffer, recv_offset, recv_count, recv_type});
    });
}

cl_int clEnqueueScattervBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                  cl_bool blocking, size_t send_offset, const size_t *send_counts,
                                  const size_t *send_displacements, MPI_Datatype send_type,
                                  cl_mem recv_buffer, size_t recv_offset, size_t recv_count,
                                  MPI_Datatype recv_type, int root, MPI_Comm comm,
                                  cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                  cl_event *event) {
    return at_boundary("clEnqueueScattervBufferMPI", [&] {
        run_parts({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                   Group(comm),
                   {}},
                  CollectiveKind::scatterv, root,
                  {send_buffer, send_offset, 0, send_type, send_counts, send_displacements},
                  {recv_buffer, recv_offset, recv_count, recv_type});
    });
}

cl_int clEnqueueAlltoallBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                  cl_bool blocking, size_t send_offset, size_t send_count,
                                  MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                  size_t recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                                  cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                  cl_event *event) {
    return at_boundary("clEnqueueAlltoallBufferMPI", [&] {
        run_alltoall({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                      Group(comm),
                      {}},
                     CollectiveKind::alltoall, {send_buffer, send_offset, send_count, send_type},
                     {recv_buffer, recv_offset, recv_count, recv_type});
    });
}

cl_int clEnqueueAlltoallvBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, const size_t *send_counts,
                                   const size_t *send_displacements, MPI_Datatype send_type,
                                   cl_mem recv_buffer, size_t recv_offset,
                                   const size_t *recv_counts, const size_t *recv_displacements,
                                   MPI_Datatype recv_type, MPI_Comm comm,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                   cl_event *event) {
    return at_boundary("clEnqueueAlltoallvBufferMPI", [&] {
        run_alltoall({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                      Group(comm),
                      {}},
                     CollectiveKind::alltoallv,
                     {send_buffer, send_offset, 0, send_type, send_counts, send_displacements},
                     {recv_buffer, recv_offset, 0, recv_type, recv_counts, recv_displacements});
    });
}

}  // extern "C"
