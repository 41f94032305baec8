#pragma once

#include <array>

namespace cldist {

/// The name of a socket for the processes of this host. It is not in any file system.
using LocalName = std::array<char, 32>;

}  // namespace cldist
