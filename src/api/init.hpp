#pragma once

namespace cldist {

/// True if redirection.cpp supports the relocations of this CPU architecture.
#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool redirects_calls = true;
#else
inline constexpr bool redirects_calls = false;
#endif

using InitThread = int(int *argc, char ***argv, int required, int *provided);

/// A PMPI tool's MPI_Init_thread, or null. Set before main().
extern InitThread *init_of_tool;

/// Replace PMPI_Init and PMPI_Init_thread for tools and Fortran bindings.
int init_below_tool(int *argc, char ***argv);
InitThread init_thread_below_tool;

}  // namespace cldist
