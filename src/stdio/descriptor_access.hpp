#pragma once

#include <sys/types.h>

#include <memory>

#include "pipeline/file_access.hpp"

namespace cldist {

/// Accesses the file of `descriptor` from byte `start` with pread and pwrite.
std::shared_ptr<FileAccess> make_descriptor_access(int descriptor, off_t start);

}  // namespace cldist
