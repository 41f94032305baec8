#pragma once

#include <optional>

#include <mpi.h>

namespace cldist {

/// The format of messages on a communicator: with a header, or only the payload, as other MPI calls
/// send and receive it.
enum class Wire { cldist, plain };

/// The choice in `info` under the key cldist_wire, or nothing. An invalid value is logged once. Any
/// thread. Throws an Error.
std::optional<Wire> wire_in(MPI_Info info);

/// The choice for `comm`: from set_wire(), else from the hints that MPI kept for it, else cldist.
/// Any thread. Throws an Error.
Wire wire_of(MPI_Comm comm);

/// Sets the choice for `comm`. Later duplicates inherit it. Any thread. Throws an Error.
void set_wire(MPI_Comm comm, Wire wire);

/// While an object exists, duplicates of `comm` that this thread makes get the choice in `info`
/// instead of the choice of `comm`.
class WireOfDuplicates {
public:
    /// Throws an Error.
    WireOfDuplicates(MPI_Comm comm, MPI_Info info);
    WireOfDuplicates(const WireOfDuplicates &) = delete;
    WireOfDuplicates &operator=(const WireOfDuplicates &) = delete;
    ~WireOfDuplicates();
};

}  // namespace cldist
