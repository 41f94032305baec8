#include <map>
#include <random>

#include <doctest/doctest.h>

#include "pipeline/free_ranges.hpp"

using cldist::FreeRanges;

TEST_CASE("free ranges do not overlap, and all memory is free again at the end") {
    constexpr std::size_t size = 64 * FreeRanges::alignment;
    FreeRanges free(FreeRanges::alignment, size);
    std::map<std::size_t, std::size_t> taken;
    std::mt19937 random(1);
    for (int i = 0; i < 10000; ++i) {
        if (random() % 2 == 0) {
            const std::size_t wanted = 1 + random() % (8 * FreeRanges::alignment);
            if (const auto offset = free.take(wanted)) taken.emplace(*offset, wanted);
        } else if (!taken.empty()) {
            const auto at =
                std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
            free.give_back(at->first, at->second);
            taken.erase(at);
        }
        std::size_t end = FreeRanges::alignment;
        for (const auto &[offset, length] : taken) {
            REQUIRE(offset >= end);
            end = offset + length;
        }
        REQUIRE(end <= FreeRanges::alignment + size);
    }
    for (const auto &[offset, length] : taken) free.give_back(offset, length);
    CHECK(free.take(size) == FreeRanges::alignment);
    CHECK(!free.take(1));
}
