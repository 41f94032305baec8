#pragma once

#include "splitting/intervals.hpp"

/// Returns true if `all` includes the bytes of `some`.
inline bool includes(const cldist::splitting::Intervals &all, cldist::splitting::Intervals some) {
    some.subtract(all);
    return some.empty();
}
