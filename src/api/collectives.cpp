// Collective commands. The section of that name in the header describes them.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "api/boundary.hpp"
#include "api/collective_call.hpp"
#include "mpi_interop/mpi_status.hpp"

using namespace cldist;

namespace {

/// The elements from an offset in a buffer on. It replaces the address in MPI's calls.
struct Elements {
    cl_mem buffer;
    std::size_t offset;  ///< bytes
    std::size_t count;   ///< elements; kinds with a size per process ("v") use `counts`
    MPI_Datatype type;
    const std::size_t *counts = nullptr;
    const std::size_t *displacements = nullptr;  ///< elements
};

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
    if (!whole && !is_predefined(type))
        throw Error(CL_INVALID_MPI_DATATYPE,
                    fmt::format("the datatype has {} bytes in an extent of {} from {} on; expected "
                                "a datatype without gaps",
                                size, extent, begin));
    return static_cast<std::size_t>(extent);
}

std::size_t element_of_reduction(MPI_Datatype type, MPI_Op op) {
    const std::size_t element = element_of(type);
    if (!is_predefined(type))
        throw Error(CL_INVALID_MPI_DATATYPE, "the datatype of a reduction is not predefined");
    if (find_operator(op) == nullptr)
        throw Error(CL_INVALID_MPI_OP, "the operator is not a predefined reduction operator");
    return element;
}

std::size_t bytes_of_elements(std::size_t count, std::size_t element) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, element, &bytes))
        throw Error(
            CL_INVALID_VALUE,
            fmt::format("{} elements of {} bytes exceed the address space", count, element));
    return bytes;
}

SideArgument side_of(const Elements &elements, std::size_t element, Direction direction) {
    return {
        {elements.buffer, elements.offset, bytes_of_elements(elements.count, element), direction},
        {}};
}

/// The same for kinds with counts and displacements.
SideArgument uneven_side_of(const Elements &elements, std::size_t element, int processes,
                            Direction direction) {
    if (elements.counts == nullptr || elements.displacements == nullptr)
        throw Error(CL_INVALID_VALUE, "the array of counts or of displacements is NULL");
    std::vector<Span> parts;
    std::size_t begin = SIZE_MAX;
    std::size_t end = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(processes); ++i) {
        const std::size_t size = bytes_of_elements(elements.counts[i], element);
        Span &part = parts.emplace_back();
        // As in MPI, programs need not set the displacement of an empty part.
        if (size == 0) continue;
        part = {bytes_of_elements(elements.displacements[i], element), size};
        if (part.offset > SIZE_MAX - part.size)
            throw Error(CL_INVALID_VALUE, "a part exceeds the address space");
        begin = std::min(begin, part.offset);
        end = std::max(end, part.offset + part.size);
    }
    begin = std::min(begin, end);
    for (Span &part : parts)
        if (part.size != 0) part.offset -= begin;
    if (elements.offset > SIZE_MAX - begin)
        throw Error(CL_INVALID_VALUE, "a part exceeds the address space");
    return {{elements.buffer, elements.offset + begin, end - begin, direction}, std::move(parts)};
}

/// The same for the parts of all processes.
SideArgument side_of_all(const Elements &elements, bool uneven, std::size_t element, int processes,
                         Direction direction) {
    if (uneven) return uneven_side_of(elements, element, processes, direction);
    Elements all = elements;
    all.count = bytes_of_elements(elements.count, static_cast<std::size_t>(processes));
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

/// Checks that this process sends and receives the same number of bytes to itself.
void check_parts(std::size_t given, std::size_t got) {
    if (given != got)
        throw Error(CL_INVALID_VALUE,
                    fmt::format("this process's own part has {} bytes in the send range and {} in "
                                "the receive range; expected equal sizes",
                                given, got));
}

// These functions set the sides of this process and the distance that means MPI_IN_PLACE.

void run_reduction(const CommandArguments &command, MPI_Comm comm, CollectiveKind kind, int root,
                   const Elements &send, const Elements &recv, MPI_Op op) {
    CollectiveArguments call{command, CollectiveGroup(comm), {}};
    if (traits_of(kind).has_root) call.group.check_root(root);
    const std::size_t element = element_of_reduction(send.type, op);
    call.send = side_of(send, element, Direction::send);
    if (!traits_of(kind).has_root || call.group.rank == root)
        call.recv = side_of(recv, element, Direction::recv);
    call.what = {kind, root, call.send->range.size, element, send.type, op};
    run_collective(std::move(call));
}

// Gathers and scatters. Each process has one part, and the root or all processes have all parts.
void run_parts(const CommandArguments &command, MPI_Comm comm, CollectiveKind kind, int root,
               const Elements &send, const Elements &recv) {
    CollectiveArguments call{command, CollectiveGroup(comm), {}};
    const bool scatters = traits_of(kind).gives_parts;
    const bool for_all = !traits_of(kind).has_root;
    const bool uneven = traits_of(kind).has_sizes;
    if (!for_all) call.group.check_root(root);
    const Elements &one = scatters ? recv : send;
    const Elements &all = scatters ? send : recv;
    const bool has_all = for_all || call.group.rank == root;
    const std::size_t one_element = element_of(one.type);
    const std::size_t element = has_all ? element_of(all.type) : 0;
    const SideArgument &one_side =
        (scatters ? call.recv : call.send)
            .emplace(side_of(one, one_element, scatters ? Direction::recv : Direction::send));
    const std::size_t part = one_side.range.size;
    if (has_all) {
        const auto rank = static_cast<std::size_t>(call.group.rank);
        const SideArgument &side =
            (scatters ? call.send : call.recv)
                .emplace(side_of_all(all, uneven, element, call.group.size,
                                     scatters ? Direction::send : Direction::recv));
        const Span own =
            uneven ? side.parts[rank] : Span{rank * part, bytes_of_elements(all.count, element)};
        check_parts(scatters ? own.size : part, scatters ? part : own.size);
        const auto distance = static_cast<std::ptrdiff_t>(own.offset);
        call.in_place_at = scatters ? -distance : distance;
    }
    call.what = {kind, root, part};
    run_collective(std::move(call));
}

void run_alltoall(const CommandArguments &command, MPI_Comm comm, CollectiveKind kind,
                  const Elements &send, const Elements &recv) {
    CollectiveArguments call{command, CollectiveGroup(comm), {}};
    const bool uneven = traits_of(kind).has_sizes;
    const auto rank = static_cast<std::size_t>(call.group.rank);
    const std::array elements{element_of(send.type), element_of(recv.type)};
    call.send = side_of_all(send, uneven, elements[0], call.group.size, Direction::send);
    call.recv = side_of_all(recv, uneven, elements[1], call.group.size, Direction::recv);
    if (uneven)
        check_parts(call.send->parts[rank].size, call.recv->parts[rank].size);
    else
        check_parts(call.send->range.size, call.recv->range.size);
    call.what = {kind, 0, call.send->range.size / static_cast<std::size_t>(call.group.size)};
    run_collective(std::move(call));
}

}  // namespace

extern "C" {

cl_int clEnqueueBarrierMPI(cl_command_queue command_queue, cl_bool blocking, MPI_Comm comm,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event) {
    return at_boundary("clEnqueueBarrierMPI", [&] {
        run_collective({{command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                        CollectiveGroup(comm),
                        {CollectiveKind::barrier}});
    });
}

cl_int clEnqueueBcastBufferMPI(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking,
                               size_t offset, size_t count, MPI_Datatype datatype, int root,
                               MPI_Comm comm, cl_uint num_events_in_wait_list,
                               const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueBcastBufferMPI", [&] {
        CollectiveArguments call{
            {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
            CollectiveGroup(comm),
            {CollectiveKind::bcast, root}};
        call.group.check_root(root);
        const bool gives = call.group.rank == root;
        SideArgument side = side_of({buffer, offset, count, datatype}, element_of(datatype),
                                    gives ? Direction::send : Direction::recv);
        call.what.bytes = side.range.size;
        (gives ? call.send : call.recv) = std::move(side);
        run_collective(std::move(call));
    });
}

cl_int clEnqueueReduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                size_t recv_offset, size_t count, MPI_Datatype datatype, MPI_Op op,
                                int root, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueReduceBufferMPI", [&] {
        run_reduction({command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                      comm, CollectiveKind::reduce, root,
                      {send_buffer, send_offset, count, datatype},
                      {recv_buffer, recv_offset, count, datatype}, op);
    });
}

cl_int clEnqueueAllreduceBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                   cl_bool blocking, size_t send_offset, cl_mem recv_buffer,
                                   size_t recv_offset, size_t count, MPI_Datatype datatype,
                                   MPI_Op op, MPI_Comm comm, cl_uint num_events_in_wait_list,
                                   const cl_event *event_wait_list, cl_event *event) {
    return at_boundary("clEnqueueAllreduceBufferMPI", [&] {
        run_reduction({command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                      comm, CollectiveKind::allreduce, 0,
                      {send_buffer, send_offset, count, datatype},
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
        CollectiveArguments call{
            {command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
            CollectiveGroup(comm),
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
        run_collective(std::move(call));
    });
}

cl_int clEnqueueGatherBufferMPI(cl_command_queue command_queue, cl_mem send_buffer,
                                cl_bool blocking, size_t send_offset, size_t send_count,
                                MPI_Datatype send_type, cl_mem recv_buffer, size_t recv_offset,
                                size_t recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                                cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                                cl_event *event) {
    return at_boundary("clEnqueueGatherBufferMPI", [&] {
        run_parts({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, comm,
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
        run_parts({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, comm,
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
        run_parts({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, comm,
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
        run_parts({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, comm,
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
        run_parts({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, comm,
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
        run_parts({command_queue, blocking, num_events_in_wait_list, event_wait_list, event}, comm,
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
        run_alltoall({command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                     comm, CollectiveKind::alltoall,
                     {send_buffer, send_offset, send_count, send_type},
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
        run_alltoall({command_queue, blocking, num_events_in_wait_list, event_wait_list, event},
                     comm, CollectiveKind::alltoallv,
                     {send_buffer, send_offset, 0, send_type, send_counts, send_displacements},
                     {recv_buffer, recv_offset, 0, recv_type, recv_counts, recv_displacements});
    });
}

}  // extern "C"
