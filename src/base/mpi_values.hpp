#pragma once

namespace cldist {

/// Constants of the MPI library, for modules that do not include mpi.h. The build determines them.
inline constexpr int mpi_any_source = CLDIST_MPI_ANY_SOURCE;
inline constexpr int mpi_any_tag = CLDIST_MPI_ANY_TAG;
inline constexpr int mpi_proc_null = CLDIST_MPI_PROC_NULL;
inline constexpr int mpi_undefined = CLDIST_MPI_UNDEFINED;

}  // namespace cldist
