#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace cldist {

/// The failure of `call` with errno `error` after `moved` bytes of the transfer.
Status file_failure(int error, const char *call, const std::string &file, std::size_t moved);
/// The file ended after `moved` bytes of the transfer.
Status end_of_file(const std::string &file, std::size_t moved);

}  // namespace cldist
