#include "pipeline/refinement.hpp"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

// Time per byte with this block size. It is lowest at `best`.
double cost(std::size_t block, std::size_t best) {
    const double x = std::log2(static_cast<double>(block) / static_cast<double>(best));
    return 1e-10 * (1 + 0.1 * x * x);
}

// The block size that transfers of `size` bytes settle on.
template <typename Cost>
std::size_t settled(std::size_t planned, std::size_t size, const Cost &took, int transfers = 2000) {
    Refinement refinement;
    int in_use = 0;
    for (int i = 0; i < transfers; ++i) {
        const int shift = refinement.next(planned, size);
        refinement.took(shift, took(shifted(planned, shift)));
        if (i % 2 == 0) in_use = shift;
    }
    // The last transfer may be a trial. The shift of most of the next transfers is the one in use.
    int equal = 0;
    for (int i = 0; i < 5; ++i) {
        const int shift = refinement.next(planned, size);
        if (equal == 0) in_use = shift;
        equal += shift == in_use ? 1 : -1;
    }
    return shifted(planned, in_use);
}

}  // namespace

TEST_CASE("the block size moves to where transfers are fastest, from either side") {
    for (const std::size_t best : {256 * kib, mib, 8 * mib}) {
        CAPTURE(best);
        CHECK(settled(mib, 64 * mib, [&](std::size_t block) { return cost(block, best); }) == best);
    }
}

TEST_CASE("the best block size stays, and trials become rare") {
    Refinement refinement;
    int trials = 0;
    for (int i = 0; i < 4000; ++i) {
        const int shift = refinement.next(mib, 64 * mib);
        trials += shift != 0 ? 1 : 0;
        refinement.took(shift, cost(shifted(mib, shift), mib));
    }
    CHECK(trials > 8);
    CHECK(trials < 100);
}

TEST_CASE("noise that only adds time does not move the block size") {
    std::mt19937 random(7);
    std::exponential_distribution<double> noise(2);
    CHECK(settled(
              mib, 64 * mib, [&](std::size_t) { return 1e-10 * (1 + noise(random)); }, 400) >= 256 * kib);
    CHECK(settled(mib, 64 * mib, [&](std::size_t block) { return cost(block, mib) * (1 + noise(random)); }) == mib);
}

TEST_CASE("blocks stay between 64 KiB and 64 MiB, and no larger than the transfer") {
    for (const std::size_t planned : {64 * kib, 64 * mib}) {
        Refinement refinement;
        for (int i = 0; i < 1000; ++i) {
            const int shift = refinement.next(planned, 100 * mib);
            const std::size_t block = shifted(planned, shift);
            CHECK(block >= 64 * kib);
            CHECK(block <= 64 * mib);
            refinement.took(shift, 1.0 / static_cast<double>(planned == 64 * kib ? block : 100 * mib - block));
            if (planned == 64 * mib) break;
        }
    }
    Refinement refinement;
    for (int i = 0; i < 100; ++i) CHECK(shifted(mib, refinement.next(mib, mib + mib / 2)) <= mib);
}

TEST_CASE("the block size follows a change of the system") {
    Refinement refinement;
    std::size_t last = 0;
    for (const std::size_t best : {256 * kib, 4 * mib}) {
        for (int i = 0; i < 6000; ++i) {
            const int shift = refinement.next(mib, 64 * mib);
            last = shifted(mib, shift);
            refinement.took(shift, cost(last, best));
        }
        CHECK(last >= best / 2);
        CHECK(last <= best * 2);
    }
}

TEST_CASE("of two ways, the planned one stays while it is faster, and trials become rare") {
    WayRefinement ways;
    int others = 0;
    for (int i = 0; i < 1000; ++i) {
        const bool other = ways.next();
        others += other ? 1 : 0;
        ways.took(other, other ? 1.2e-10 : 1e-10);
    }
    CHECK(others > 10);
    CHECK(others < 30);
}

TEST_CASE("a clearly faster way is chosen within ten transfers, a slightly faster way is not") {
    for (const auto &[factor, taken] : {std::pair{0.5, true}, std::pair{0.95, false}}) {
        CAPTURE(factor);
        WayRefinement ways;
        for (int i = 0; i < 10; ++i) {
            const bool other = ways.next();
            ways.took(other, other ? factor * 1e-10 : 1e-10);
        }
        CHECK(ways.next() == taken);
    }
}

TEST_CASE("the choice of way follows the times, whichever way was planned") {
    WayRefinement ways;
    bool planned_is_faster = false;
    for (int change = 0; change < 6; ++change, planned_is_faster = !planned_is_faster) {
        CAPTURE(change);
        for (int i = 0; i < 200; ++i) {
            const bool other = ways.next();
            ways.took(other, other == planned_is_faster ? 3e-10 : 1e-10);
        }
        int faster = 0;
        for (int i = 0; i < 10; ++i) {
            const bool other = ways.next();
            faster += other != planned_is_faster ? 1 : 0;
            ways.took(other, other == planned_is_faster ? 3e-10 : 1e-10);
        }
        CHECK(faster >= 9);
    }
}

TEST_CASE("one slow transfer changes no choice") {
    WayRefinement ways;
    for (int i = 0; i < 40; ++i) {
        const bool other = ways.next();
        ways.took(other, other ? 1.2e-10 : 1e-10);
    }
    for (int i = 0; i < 3; ++i) {
        const bool other = ways.next();
        ways.took(other, 9e-10);
    }
    int planned = 0;
    for (int i = 0; i < 5; ++i) planned += ways.next() ? 0 : 1;
    CHECK(planned >= 4);
}
