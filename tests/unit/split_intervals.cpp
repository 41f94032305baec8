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

        Intervals united = a.set;
        united.unite(b.set);
        Intervals one_by_one = a.set;
        for (const Interval &range : b.set) one_by_one.unite({range});
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
    }
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

TEST_CASE("each row of the planes of a block is one range") {
    CHECK(Intervals(Box{40, 16, {{100, 7}, {5000, 3}}}).size() == 21);
    // Rows without gaps between them are one range.
    CHECK(Intervals(Box{8, 100, {{100, 7}}}) == Intervals{{8, 708}});
}
