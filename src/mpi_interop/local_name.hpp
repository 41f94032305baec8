#pragma once

#include <array>

namespace cldist {

/// The name of an abstract Unix socket, which is in no file system. All zero if there is no socket.
using LocalName = std::array<char, 32>;

}  // namespace cldist
