#include "cluster/schedule/interval_map.hpp"

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using cldist::cluster::IntervalMap;

namespace {

using MapPiece = std::tuple<std::size_t, std::size_t, int>;

std::vector<MapPiece> pieces_of(const IntervalMap<int> &map, std::size_t begin, std::size_t end) {
    std::vector<MapPiece> pieces;
    map.visit(begin, end,
              [&](std::size_t b, std::size_t e, int value) { pieces.emplace_back(b, e, value); });
    return pieces;
}

void assign(IntervalMap<int> &map, std::size_t begin, std::size_t end, int value) {
    map.overwrite(
        begin, end, [value](int old) { return old == value; }, [value](int &old) { old = value; });
}

bool any(int) { return true; }

}  // namespace

TEST_CASE("an unchanged interval map is one piece") {
    IntervalMap<int> map(100, 7);
    CHECK(pieces_of(map, 0, 100) == std::vector<MapPiece>{{0, 100, 7}});
    for (int i = 0; i < 3; ++i) {
        assign(map, 0, 100, i);
        map.change(0, 100, any, [](std::size_t, std::size_t, int &value) { ++value; });
        CHECK(pieces_of(map, 0, 100) == std::vector<MapPiece>{{0, 100, i + 1}});
        CHECK(map.pieces() == 1);
    }
}

TEST_CASE("an interval map splits at the borders of a change and merges equal neighbours") {
    IntervalMap<int> map(100, 0);
    assign(map, 20, 60, 1);
    CHECK(pieces_of(map, 0, 100) == std::vector<MapPiece>{{0, 20, 0}, {20, 60, 1}, {60, 100, 0}});
    CHECK(pieces_of(map, 30, 70) == std::vector<MapPiece>{{30, 60, 1}, {60, 70, 0}});
    assign(map, 60, 70, 1);
    CHECK(pieces_of(map, 0, 100) == std::vector<MapPiece>{{0, 20, 0}, {20, 70, 1}, {70, 100, 0}});
    map.change(10, 30, any, [](std::size_t, std::size_t, int &value) { value = 2; });
    CHECK(pieces_of(map, 0, 100) ==
          std::vector<MapPiece>{{0, 10, 0}, {10, 30, 2}, {30, 70, 1}, {70, 100, 0}});
    assign(map, 0, 100, 0);
    CHECK(map.pieces() == 1);
}

TEST_CASE("an empty range of an interval map has no pieces and changes nothing") {
    IntervalMap<int> map(10, 0);
    assign(map, 3, 3, 1);
    assign(map, 10, 10, 1);
    map.change(5, 5, any, [](std::size_t, std::size_t, int &value) { value = 1; });
    CHECK(map.pieces() == 1);
    CHECK(pieces_of(map, 5, 5).empty());
    CHECK(IntervalMap<int>(0, 1).pieces() == 0);
}

static void change_at_random(std::size_t size, std::size_t longest, int rounds, int changes) {
    CAPTURE(size);
    std::mt19937_64 random(1);
    for (int round = 0; round < rounds; ++round) {
        IntervalMap<int> map(size, 0);
        std::vector<int> array(size, 0);
        std::vector<std::pair<IntervalMap<int>, std::vector<MapPiece>>> copies;
        for (int i = 0; i < changes; ++i) {
            const std::size_t begin = random() % (size + 1);
            const std::size_t end = begin + random() % (std::min(size - begin, longest) + 1);
            const int value = static_cast<int>(random() % 3);
            const auto kind = random() % 3;
            if (kind == 0) {
                assign(map, begin, end, value);
                std::fill(array.begin() + static_cast<std::ptrdiff_t>(begin),
                          array.begin() + static_cast<std::ptrdiff_t>(end), value);
            } else {
                // Changes all values, or only values equal to `value`.
                const auto wanted = [=](int old) { return kind == 1 || old == value; };
                map.change(begin, end, wanted,
                           [](std::size_t, std::size_t, int &old) { old = (old + 1) % 3; });
                for (std::size_t at = begin; at < end; ++at) {
                    if (wanted(array[at])) array[at] = (array[at] + 1) % 3;
                }
            }
            std::vector<MapPiece> expected;
            for (std::size_t at = 0; at < size; ++at) {
                if (expected.empty() || std::get<2>(expected.back()) != array[at]) {
                    expected.emplace_back(at, at, array[at]);
                }
                std::get<1>(expected.back()) = at + 1;
            }
            REQUIRE(pieces_of(map, 0, size) == expected);
            REQUIRE(map.pieces() == expected.size());
            if (i % 10 == 0) copies.emplace_back(map, expected);
            for (const auto &[copy, then] : copies) REQUIRE((copy == map) == (then == expected));
            std::size_t at = begin;
            for (const auto &[b, e, v] : pieces_of(map, begin, end)) {
                REQUIRE(b == at);
                for (; at < e; ++at) REQUIRE(array[at] == v);
            }
            REQUIRE(at == end);
        }
        for (const auto &[copy, then] : copies) REQUIRE(pieces_of(copy, 0, size) == then);
    }
}

TEST_CASE(
    "after random changes an interval map equals an array, has the fewest pieces, and leaves its "
    "copies unchanged") {
    change_at_random(24, 24, 300, 40);
    change_at_random(1000, 5, 3, 2000);
    change_at_random(1000, 150, 3, 500);
}
