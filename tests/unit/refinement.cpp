#include "pipeline/refinement.hpp"

#include <doctest/doctest.h>

using namespace cldist;

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
