#pragma once

#include <cstddef>

namespace cldist::tool {

inline constexpr std::size_t kib = std::size_t{1} << 10U;
inline constexpr std::size_t mib = std::size_t{1} << 20U;

}  // namespace cldist::tool
