#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "events/record.hpp"
#include "pipeline/file_access.hpp"

namespace cldist {

/// `size` bytes of the file's view from etype `start` on, by MPI_File_write_at and MPI_File_read_at, or, if `collective`,
/// by their forms with _all. Throws an Error if these can't be.
std::shared_ptr<FileAccess> make_mpi_file_access(MPI_File file, MPI_Offset start, std::size_t size, Direction direction,
                                                 bool collective);

}  // namespace cldist
