#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mpi.h>

#include "events/operation.hpp"
#include "mpi_interop/collective_line.hpp"
#include "mpi_interop/collective_rounds.hpp"
#include "mpi_interop/message_driver.hpp"
#include "pipeline/device_endpoint.hpp"

namespace cldist {

enum class CollectiveKind {
    barrier,
    bcast,
    gather,
    gatherv,
    scatter,
    scatterv,
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    reduce,
    allreduce,
    reduce_scatter
};
/// As MPI calls it, without "MPI_".
[[nodiscard]] const char *name_of(CollectiveKind kind);
/// Whether each process may give or get as much as it likes.
[[nodiscard]] bool has_sizes_of_processes(CollectiveKind kind);

/// What a process gives to a collective, or gets from it: nothing, if `size` is 0.
struct CollectiveSide {
    DeviceRange range{};
    /// Of forms with a size for each process ("v"): where the parts lie. They may leave gaps.
    std::vector<Span> parts{};
};

/// What MPI is to do.
struct Collective {
    CollectiveKind kind;
    int root = 0;
    /// Bytes of what one process gives, or gets, of each other: of a gather, scatter or alltoall without sizes for each process;
    /// of other kinds without, all bytes.
    std::size_t bytes = 0;
    /// Of reductions.
    std::size_t element = 1;  ///< bytes
    MPI_Datatype type = MPI_BYTE;
    MPI_Op op = MPI_OP_NULL;
    std::vector<std::size_t> counts{};  ///< of MPI_Reduce_scatter, in elements
};

/// Does the collective when it is the first of the line, which it enters now. Each process decides alone whether both sides
/// share memory as with MPI_IN_PLACE; no byte may be in both sides otherwise. If it fails in one process before it has given all, it fails in all. `driver` outlives it.
std::unique_ptr<Operation> make_collective(Collective what, CollectiveSide send, CollectiveSide recv,
                                           std::shared_ptr<CollectiveLine> line, MessageDriver &driver);

/// For the stall report.
std::shared_ptr<Record> make_record(const Collective &what, const CollectiveSide &send, const CollectiveSide &recv,
                                    const CollectiveLine &line);

}  // namespace cldist
