#pragma once

#include <cstdint>
#include <ctime>

namespace cldist {

/// Nanoseconds of CLOCK_MONOTONIC. All times that this library reports use this clock.
inline std::uint64_t now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace cldist
