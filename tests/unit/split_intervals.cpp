/// Sets of bytes, compared with one bit for each byte.

#include <bitset>
#include <cstddef>
#include <ostream>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "splitting/intervals.hpp"

using namespace cldist::splitting;

namespace {

constexpr std::size_t space = 256;
using Bits = std::bitset<space>;

Bits bits(const Intervals &set) {
    Bits all;
    for (const auto &[begin, end] : set) {
        for (std::size_t i = begin; i < end; ++i) all.set(i);
    }
    return all;
}

bool well_formed(const Intervals &set) {
    const Interval *before = nullptr;
    for (const Interval &range : set) {
        if (range.begin >= range.end || (before != nullptr && before->end >= range.begin))
            return false;
        before = &range;
    }
    return true;
}

struct Both {
    Intervals set;
    Bits bits;
};

Both random_set(std::mt19937 &random) {
    std::vector<Interval> ranges(random() % 12);
    Bits all;
    for (auto &[begin, end] : ranges) {
        begin = random() % space;
        end = std::min(space, begin + random() % 24);
        for (std::size_t i = begin; i < end; ++i) all.set(i);
    }
    return {Intervals(std::move(ranges)), all};
}

Box random_box(std::mt19937 &random) {
    Box box{random() % 20, random() % 6, {}};
    for (std::size_t steps = random() % 4; steps > 0; --steps)
        box.steps.emplace_back(random() % 12, random() % 5);
    return box;
}

Bits bits(const Box &box, std::size_t step = 0, std::size_t base = 0) {
    Bits all;
    if (step == box.steps.size()) {
        for (std::size_t i = 0; i < box.length; ++i) all.set(box.begin + base + i);
        return all;
    }
    for (std::size_t i = 0; i < box.steps[step].second; ++i)
        all |= bits(box, step + 1, base + i * box.steps[step].first);
    return all;
}

}  // namespace

TEST_CASE("sets of intervals behave like sets of bytes") {
    std::mt19937 random(3);
    for (int round = 0; round < 20000; ++round) {
        const Both a = random_set(random);
        const Both b = random_set(random);
        REQUIRE(well_formed(a.set));
        REQUIRE(bits(a.set) == a.bits);
        CHECK(a.set.bytes() == a.bits.count());
        CHECK(a.set.empty() == a.bits.none());
        CHECK((a.set == b.set) == (a.bits == b.bits));
        CHECK(a.set.contains(b.set) == ((b.bits & ~a.bits).none()));
        CHECK(a.set.overlaps(b.set) == (a.bits & b.bits).any());

        Intervals united = a.set;
        united.unite(b.set);
        Intervals one_by_one = a.set;
        for (const auto &[begin, end] : b.set) one_by_one.unite(begin, end);
        Intervals common = a.set;
        common.intersect(b.set);
        Intervals rest = a.set;
        rest.subtract(b.set);
        for (const Intervals *set : {&united, &one_by_one, &common, &rest})
            REQUIRE(well_formed(*set));
        REQUIRE(bits(united) == (a.bits | b.bits));
        REQUIRE(one_by_one == united);
        REQUIRE(bits(common) == (a.bits & b.bits));
        REQUIRE(bits(rest) == (a.bits & ~b.bits));

        const std::size_t begin = random() % space;
        const std::size_t end = begin + random() % (space - begin);
        CHECK(a.set.contains(begin, end) == a.set.contains(Intervals{{begin, end}}));
    }
}

TEST_CASE(
    "a coarser set contains the finer set, has at most the given number of ranges, and keeps the "
    "widest gaps") {
    std::mt19937 random(4);
    for (int round = 0; round < 5000; ++round) {
        const Both a = random_set(random);
        for (std::size_t most = 1; most < 8; ++most) {
            Intervals coarse = a.set;
            coarse.coarsen(most);
            REQUIRE(well_formed(coarse));
            CHECK(coarse.size() == std::min(most, a.set.size()));
            CHECK(coarse.contains(a.set));
        }
    }
    Intervals set{{0, 1}, {3, 4}, {10, 11}, {12, 13}};
    set.coarsen(2);
    CHECK(set == Intervals{{0, 4}, {10, 13}});
}

TEST_CASE("the intervals of a box are its bytes, whatever its strides are") {
    std::mt19937 random(5);
    for (int round = 0; round < 20000; ++round) {
        const Box box = random_box(random);
        const Intervals set(box);
        REQUIRE(well_formed(set));
        REQUIRE(bits(set) == bits(box));
        CHECK(set.size() <= ranges_of(box));
        REQUIRE(bits(normalised(box)) == bits(box));
    }
}

TEST_CASE("boxes contain the bytes of their intervals, each once") {
    std::mt19937 random(6);
    for (int round = 0; round < 5000; ++round) {
        Intervals set = random_set(random).set;
        set.unite(Intervals(random_box(random)));
        Bits all;
        for (const Box &box : boxes(set)) {
            const Bits here = bits(box);
            CHECK((all & here).none());
            all |= here;
        }
        CHECK(all == bits(set));
    }
}

TEST_CASE("rows of a block are one box, and so are the rows of its planes") {
    const Box block{40, 16, {{100, 7}, {5000, 3}}};
    CHECK(boxes(Intervals(block)) == std::vector{block});
    CHECK(Intervals(block).size() == 21);
    // Rows without gaps between them are one range.
    CHECK(Intervals(Box{8, 100, {{100, 7}}}) == Intervals{{8, 708}});
}
