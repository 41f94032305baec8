#pragma once

#include <cstdio>
#include <memory>

#include "pipeline/file_access.hpp"

namespace cldist {

/// Accesses the stream at its position with fread and fwrite. A transfer locks the stream.
std::shared_ptr<FileAccess> make_stream_access(std::FILE *stream);

}  // namespace cldist
