#pragma once

#include <cstdio>
#include <memory>

#include "pipeline/file_access.hpp"

namespace cldist {

/// The stream at its position, by fread and fwrite; locked for the length of a transfer.
std::shared_ptr<FileAccess> make_stream_access(std::FILE *stream);

}  // namespace cldist
