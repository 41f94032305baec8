#pragma once

namespace cldist {

/// Watches for forks of this process. Call it before the library starts its first thread.
void watch_for_forks();

/// Returns true if this process was forked from a process in which the library had threads. The
/// child has none of these threads, and the library's locks may stay locked forever. The child must
/// use neither the library nor MPI.
[[nodiscard]] bool in_forked_child();

}  // namespace cldist
