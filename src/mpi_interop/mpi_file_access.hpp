#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "events/record.hpp"
#include "pipeline/file_access.hpp"

namespace cldist {

/// Creates the access to `size` bytes of the file's view from etype `start`, with MPI_File_write_at
/// or MPI_File_read_at, or with their _all forms if `collective`. Throws an Error if these calls
/// are impossible.
std::shared_ptr<FileAccess> make_mpi_file_access(MPI_File file, MPI_Offset start, std::size_t size,
                                                 Direction direction, bool collective);

}  // namespace cldist
