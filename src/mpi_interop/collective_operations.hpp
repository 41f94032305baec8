#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "events/operation.hpp"
#include "mpi_interop/collective_line.hpp"
#include "mpi_interop/collective_rounds.hpp"
#include "mpi_interop/device_collectives.hpp"
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
/// What code needs to know about a kind.
struct CollectiveTraits {
    const char *name;  ///< of the MPI call, without "MPI_"
    bool has_root = false;
    bool gives_parts = false;  ///< a sender has a part for each process
    bool gets_parts = false;   ///< a receiver gets a part from each process
    bool has_sizes = false;    ///< the parts may have different sizes
    bool reduces = false;
    /// A range of the output depends only on the same range of the input. All processes then move
    /// the data in the same blocks.
    bool in_blocks = false;
};
/// In the order of CollectiveKind.
inline constexpr std::array collective_traits{
    CollectiveTraits{.name = "Barrier"},
    CollectiveTraits{.name = "Bcast", .has_root = true, .in_blocks = true},
    CollectiveTraits{.name = "Gather", .has_root = true, .gets_parts = true},
    CollectiveTraits{.name = "Gatherv", .has_root = true, .gets_parts = true, .has_sizes = true},
    CollectiveTraits{.name = "Scatter", .has_root = true, .gives_parts = true},
    CollectiveTraits{.name = "Scatterv", .has_root = true, .gives_parts = true, .has_sizes = true},
    CollectiveTraits{.name = "Allgather", .gets_parts = true},
    CollectiveTraits{.name = "Allgatherv", .gets_parts = true, .has_sizes = true},
    CollectiveTraits{.name = "Alltoall", .gives_parts = true, .gets_parts = true},
    CollectiveTraits{
        .name = "Alltoallv", .gives_parts = true, .gets_parts = true, .has_sizes = true},
    CollectiveTraits{.name = "Reduce", .has_root = true, .reduces = true, .in_blocks = true},
    CollectiveTraits{.name = "Allreduce", .reduces = true, .in_blocks = true},
    CollectiveTraits{.name = "Reduce_scatter", .reduces = true}};
constexpr const CollectiveTraits &traits_of(CollectiveKind kind) {
    return collective_traits.at(static_cast<std::size_t>(kind));
}

/// The data that a process contributes to a collective or receives from it. Empty if `size` is 0.
struct CollectiveSide {
    DeviceRange range{};
    /// For kinds with a size per process ("v"): the positions of the parts. There may be gaps.
    std::vector<Span> parts{};
};

/// The description of a collective.
struct Collective {
    CollectiveKind kind;
    int root = 0;
    /// For a gather, scatter, allgather or alltoall without sizes per process: the bytes of one
    /// part. For the other kinds without sizes per process: the size of the data.
    std::size_t bytes = 0;
    /// For reductions.
    std::size_t element = 1;  ///< bytes
    MPI_Datatype type = MPI_BYTE;
    MPI_Op op = MPI_OP_NULL;
    std::vector<std::size_t> counts{};  ///< for MPI_Reduce_scatter, in elements
};

/// The part of the send side that process `rank` sends to process `to`, and the part of the receive
/// side that it receives from `from`. The processes may be equal. Not for broadcasts and
/// reductions.
[[nodiscard]] Span given_to(const Collective &what, const CollectiveSide &send, int rank, int to);
[[nodiscard]] Span got_from(const Collective &what, const CollectiveSide &recv, int rank, int from);

/// The bytes of a side of `size` bytes in as few pieces as possible, in ascending order. `parts` as
/// in CollectiveSide.
[[nodiscard]] std::vector<Span> pieces_of(std::vector<Span> parts, std::size_t size);

/// A predefined operator of reductions.
struct Operator {
    enum Operands { numbers, integers, pairs };

    MPI_Op op;
    std::string_view name;
    Operands operands;  ///< what it combines
};
/// Returns null for other operators.
[[nodiscard]] const Operator *find_operator(MPI_Op op);

/// `pair`: a value and an index, for MPI_MINLOC and MPI_MAXLOC.
enum class ElementKind { real, signed_integer, unsigned_integer, pair };
/// Returns the kind of the elements if type and operator are common and MPI allows them together.
[[nodiscard]] std::optional<ElementKind> combinable(MPI_Datatype type, MPI_Op op);

/// Creates the operation and adds it to the line. It runs when it is first. Each process decides
/// alone whether both sides are the same memory, as with MPI_IN_PLACE. Otherwise the sides must not
/// overlap. If a process fails before it has sent all data, the collective fails in all processes.
/// `driver` must outlive the operation. `ordered`: a kernel in the program's queue may carry out
/// the command; the call completes the kernel's argument `work`.
std::unique_ptr<Operation> make_collective(Collective what, CollectiveSide send,
                                           CollectiveSide recv,
                                           std::shared_ptr<CollectiveLine> line,
                                           MessageDriver &driver,
                                           std::unique_ptr<OrderedCollective> ordered = {},
                                           CollectiveWork *work = nullptr);

/// For the stall report.
std::shared_ptr<Record> make_record(const Collective &what, const CollectiveSide &send,
                                    const CollectiveSide &recv, const CollectiveLine &line);

}  // namespace cldist
