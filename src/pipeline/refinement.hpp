#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "pipeline/profile.hpp"

namespace cldist {

/// Chooses between two ways of transfer: the planned way and an alternative. It tries the way that
/// is not in use from time to time and switches to it if it is clearly faster. Pure. One object per
/// size class.
///
/// The faster way may change while the program runs, because the number of available cores changes.
/// Therefore only the shortest of the last few times of each way counts.
class WayRefinement {
public:
    /// Returns true if the next transfer should take the alternative.
    [[nodiscard]] bool next();
    /// Reports the time of a transfer. `other`: it took the alternative.
    void took(bool other, double seconds_per_byte);

private:
    struct Way {
        std::array<double, 4> last{};  ///< seconds per byte
        unsigned samples = 0;
        [[nodiscard]] double shortest() const;
    };

    std::array<Way, 2> ways_{};  ///< the planned way and the alternative
    bool in_use_ = false;        ///< the index in `ways_` of the way in use
    unsigned since_trial_ = 0;   ///< transfers since the last trial
    unsigned period_ = 2;        ///< transfers between trials
};

/// The choices between staging (planned) and moving in place (the alternative) for all message
/// sizes of a device. Thread-safe.
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
