#pragma once

#include <optional>

#include "base/status.hpp"

namespace cldist {

/// How messages look on a communicator: opened by an envelope, or nothing but their payload, as other MPI calls send and
/// receive them.
enum class Wire { cldist, plain };

/// The choice that `info` makes by its key cldist_wire; nothing if it has none. A value that is none is reported, once.
/// Any thread. Throws an Error.
std::optional<Wire> wire_in(MPI_Info info);

/// The choice made for `comm`: by set_wire(), else by the hints that MPI itself kept for it, else cldist. Any thread.
/// Throws an Error.
Wire wire_of(MPI_Comm comm);

/// Makes the choice for `comm`; duplicates made from now on have it too. Any thread. Throws an Error.
void set_wire(MPI_Comm comm, Wire wire);

/// While it lives, duplicates of `comm` that this thread makes have the choice that `info` makes, in place of that of
/// `comm`.
class WireOfDuplicates {
public:
    /// Throws an Error.
    WireOfDuplicates(MPI_Comm comm, MPI_Info info);
    WireOfDuplicates(const WireOfDuplicates &) = delete;
    WireOfDuplicates &operator=(const WireOfDuplicates &) = delete;
    ~WireOfDuplicates();
};

}  // namespace cldist
