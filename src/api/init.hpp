#pragma once

namespace cldist {

/// Whether redirection.cpp knows this processor's relocations.
#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool redirects_calls = true;
#else
inline constexpr bool redirects_calls = false;
#endif

using InitThread = int(int *argc, char ***argv, int required, int *provided);

/// A PMPI tool's MPI_Init_thread, or null. Written before the program's main function.
extern InitThread *init_of_tool;

/// What a tool, or a Fortran binding, reaches when it calls PMPI_Init and PMPI_Init_thread.
int init_below_tool(int *argc, char ***argv);
InitThread init_thread_below_tool;

}  // namespace cldist
