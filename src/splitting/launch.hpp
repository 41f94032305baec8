#pragma once

#include <array>
#include <cassert>
#include <cstddef>

namespace cldist::splitting {

/// The arguments of clEnqueueNDRangeKernel, in work-items. Unused dimensions have offset 0, global
/// size 1 and local size 1. The caller has already replaced a local size of 0. The global size need
/// not be a multiple of the local size. The last group of a dimension may then be smaller.
struct Launch {
    unsigned dimensions = 1;  ///< from 1 to 3
    std::array<std::size_t, 3> offset{0, 0, 0};
    std::array<std::size_t, 3> global{1, 1, 1};
    std::array<std::size_t, 3> local{1, 1, 1};

    [[nodiscard]] std::size_t groups(unsigned dimension) const {
        assert(local[dimension] != 0);
        return global[dimension] / local[dimension] +
               (global[dimension] % local[dimension] != 0 ? 1 : 0);
    }
    bool operator==(const Launch &) const = default;
};

/// The work-items [begin, end) of a launch, counted from 0 regardless of the launch's offset. Each
/// begin is the begin of a work-group. Each end is the end of a work-group or of the launch.
struct SubRange {
    std::array<std::size_t, 3> begin{0, 0, 0};
    std::array<std::size_t, 3> end{0, 0, 0};

    [[nodiscard]] bool empty() const {
        return begin[0] >= end[0] || begin[1] >= end[1] || begin[2] >= end[2];
    }
    bool operator==(const SubRange &) const = default;
};

/// All work-items of a launch.
inline SubRange whole(const Launch &launch) { return {{0, 0, 0}, launch.global}; }

}  // namespace cldist::splitting
