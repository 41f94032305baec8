#pragma once

namespace cldist {

/// True if redirection.cpp supports the relocations of this CPU architecture.
#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool redirects_calls = true;
#else
inline constexpr bool redirects_calls = false;
#endif

using InitThread = int(int *argc, char ***argv, int required, int *provided);

/// A PMPI tool's MPI_Init_thread, or null. Set before the program's main function.
extern InitThread *init_of_tool;

/// A tool or a Fortran binding calls these functions when it calls PMPI_Init and PMPI_Init_thread.
int init_below_tool(int *argc, char ***argv);
InitThread init_thread_below_tool;

}  // namespace cldist
