#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "pipeline/profile.hpp"

namespace cldist {

/// Chooses between two ways of transfer. It tries the other way from time to time and switches to
/// it if it is clearly faster. Pure. One object per size class.
///
/// The faster way may change while the program runs, because the number of available cores changes.
/// Therefore the shortest of the last few times of each way counts.
class WayRefinement {
public:
    /// Returns true if the next transfer should take the way that is not planned.
    [[nodiscard]] bool next();
    /// Reports the time of a transfer. `other`: it took the way that is not planned.
    void took(bool other, double seconds_per_byte);

private:
    struct Way {
        std::array<double, 4> last{};  ///< seconds per byte
        unsigned samples = 0;
        [[nodiscard]] double shortest() const;
    };

    std::array<Way, 2> ways_{};
    bool in_use_ = false;
    unsigned since_trial_ = 0;  ///< transfers since the last trial
    unsigned period_ = 2;       ///< transfers between trials
};

/// The choices between staging and moving in place for all sizes of a device's messages.
/// Thread-safe.
class Refinements {
public:
    /// Returns true if the next message, which may be staged, should move in place.
    [[nodiscard]] bool next_in_place(std::size_t size);
    void took(std::size_t size, bool in_place, double seconds);

private:
    std::mutex mutex_;
    std::array<WayRefinement, size_class_count> in_place_{};
};

}  // namespace cldist
