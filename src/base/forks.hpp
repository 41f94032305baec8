#pragma once

namespace cldist {

/// Watches, from now on, for forks of this process. To be called before the library's first thread starts.
void watch_for_forks();

/// Whether this process was forked from one in which the library had threads: here it has none, and its locks may be held
/// for ever. Such a process leaves the library, and MPI, alone.
[[nodiscard]] bool in_forked_child();

}  // namespace cldist
