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

/// `planned` times two to the power of `shift`.
[[nodiscard]] constexpr std::size_t shifted(std::size_t planned, int shift) {
    return shift < 0 ? planned >> -shift : planned << shift;
}

/// Those of all routes and sizes of a device. Thread-safe.
class Refinements {
public:
    [[nodiscard]] int next(Route route, std::size_t planned, std::size_t size);
    void took(Route route, std::size_t size, int shift, double seconds);

private:
    [[nodiscard]] Refinement &of(Route route, std::size_t size) {
        return refinements_.at(static_cast<std::size_t>(route)).at(size_class(size));
    }

    std::mutex mutex_;
    std::array<std::array<Refinement, size_class_count>, route_count> refinements_{};
};

}  // namespace cldist
