#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "pipeline/profile.hpp"

namespace cldist {

/// Adapts a block size to what transfers really took: now and then one takes half or twice the block, and where that is
/// faster the others do so from then on. Pure; one for each size class.
///
/// A block size is the planned one times a power of two, the shift. Of each the shortest time counts, forgotten slowly:
/// what else goes on in the machine only adds to it.
class Refinement {
public:
    /// The shift of the next transfer, if it is planned with blocks of `planned` of its `size` bytes.
    [[nodiscard]] int next(std::size_t planned, std::size_t size);
    /// A transfer with this shift took so long for each byte.
    void took(int shift, double seconds_per_byte);

private:
    struct Candidate {
        double best = 0;  ///< seconds per byte
        unsigned samples = 0;
    };

    int shift_ = 0;                          ///< in use
    std::array<Candidate, 3> candidates_{};  ///< of one less, of the shift in use, of one more
    unsigned since_trial_ = 0;               ///< transfers
    unsigned period_ = 8;                    ///< transfers between trials
    bool tries_larger_ = false;
};

/// Takes the other one of two ways now and then, and from then on where that is clearly faster, until it is so no longer. Pure;
/// one for each size class.
///
/// Which of the ways is faster may change while the program runs, with the cores that it gets: the shortest of the last times
/// of each counts.
class WayRefinement {
public:
    /// Whether the next transfer goes the other way than the planned one.
    [[nodiscard]] bool next();
    /// A transfer that went so took so long for each byte.
    void took(bool other, double seconds_per_byte);

private:
    struct Way {
        std::array<double, 4> last{};  ///< seconds per byte
        unsigned samples = 0;
        [[nodiscard]] double shortest() const;
    };

    std::array<Way, 2> ways_{};
    bool in_use_ = false;
    unsigned since_trial_ = 0;  ///< transfers
    unsigned period_ = 2;       ///< transfers between trials
};

/// `planned` times two to the power of `shift`.
[[nodiscard]] constexpr std::size_t shifted(std::size_t planned, int shift) {
    return shift < 0 ? planned >> -shift : planned << shift;
}

/// Those of all routes and sizes of a device. Thread-safe.
class Refinements {
public:
    [[nodiscard]] int next(Route route, std::size_t planned, std::size_t size);
    void took(Route route, std::size_t size, int shift, double seconds);
    /// Of messages that may be staged: whether the next one goes in place.
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
