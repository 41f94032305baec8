#pragma once

#include <cstdint>

#include <mpi.h>

#include "api/arguments.hpp"

namespace cldist {

/// How long a device-ordered command polls for the other process before its kernel is held back.
/// Holding back costs about as much time.
inline constexpr std::uint64_t moment_ns = 12000;
/// How long a send waits for landing memory before the host moves its message, plus the time of
/// its bytes at 64 GB/s.
inline constexpr std::uint64_t room_ns = 100000;

/// Returns true if a kernel of the command may wait for other processes. A kernel cannot fail its
/// event, so errors on the communicator must be fatal. The wait list must not depend on later calls
/// of the program.
[[nodiscard]] bool may_wait_in_kernel(const QueueInfo &queue, const CommandArguments &arguments,
                                      MPI_Comm comm);
/// Returns true if kernels may read the range, or write it, depending on its direction.
[[nodiscard]] bool open_to_kernels(const RangeArgument &range);

}  // namespace cldist
