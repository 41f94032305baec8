#pragma once

#include <cstdint>
#include <ctime>

namespace cldist {

/// Nanoseconds of the clock; 0 if it cannot be read. All times that this library reports use
/// CLOCK_MONOTONIC.
inline std::uint64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace cldist
