#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "pipeline/profile.hpp"

namespace cldist {

/// Adapts a block size to measured transfer times. Some transfers try half or twice the block size. If that is faster,
/// the following transfers use it. Pure. One object per size class.
///
/// A block size is the planned size times two to the power of `shift`. Only the shortest time of each size counts,
/// because other activity on the machine only adds time. It is forgotten slowly.
class Refinement {
public:
    /// The shift of the next transfer of `size` bytes, which is planned with blocks of `planned` bytes.
    [[nodiscard]] int next(std::size_t planned, std::size_t size);
    /// Reports the time of a transfer with this shift.
    void took(int shift, double seconds_per_byte);

private:
    struct Candidate {
        double best = 0;  ///< seconds per byte
        unsigned samples = 0;
    };

    int shift_ = 0;                          ///< the shift in use
    std::array<Candidate, 3> candidates_{};  ///< for the shift below, the shift in use, and the shift above
    unsigned since_trial_ = 0;               ///< transfers since the last trial
    unsigned period_ = 8;                    ///< transfers between trials
    bool tries_larger_ = false;
};

/// Chooses between two ways of transfer. It tries the other way from time to time and switches to it if it is clearly
/// faster. Pure. One object per size class.
///
/// The faster way may change while the program runs, because the number of available cores changes. Therefore the
/// shortest of the last few times of each way counts.
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

/// `planned` times two to the power of `shift`.
[[nodiscard]] constexpr std::size_t shifted(std::size_t planned, int shift) {
    return shift < 0 ? planned >> -shift : planned << shift;
}

/// The refinements of all routes and sizes of a device. Thread-safe.
class Refinements {
public:
    [[nodiscard]] int next(Route route, std::size_t planned, std::size_t size);
    void took(Route route, std::size_t size, int shift, double seconds);
    /// For messages that may be staged: returns true if the next message should move in place.
    [[nodiscard]] bool next_in_place(std::size_t size);
    void took(std::size_t size, bool in_place, double seconds);

private:
    [[nodiscard]] Refinement &of(Route route, std::size_t size) {
        return refinements_.at(static_cast<std::size_t>(route)).at(size_class(size));
    }

    std::mutex mutex_;
    std::array<std::array<Refinement, size_class_count>, route_count> refinements_{};
    std::array<WayRefinement, size_class_count> in_place_{};
};

}  // namespace cldist
