/// Partitions of launches, compared with what each work-item and each group sees.

#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "splitting/partition.hpp"

using namespace cldist::splitting;

namespace {

std::size_t items(const SubRange &part) {
    std::size_t product = 1;
    for (unsigned d = 0; d < 3; ++d) product *= part.end[d] - part.begin[d];
    return part.empty() ? 0 : product;
}

Launch random_launch(std::mt19937 &random) {
    Launch launch;
    launch.dimensions = 1 + random() % 3;
    for (unsigned d = 0; d < launch.dimensions; ++d) {
        launch.offset[d] = random() % 5;
        launch.global[d] = 1 + random() % (launch.dimensions == 1 ? 200 : 24);
        launch.local[d] = 1 + random() % 7;
    }
    return launch;
}

std::size_t groups(const Launch &launch) {
    return launch.groups(0) * launch.groups(1) * launch.groups(2);
}

}  // namespace

TEST_CASE("every work-item and every group of a launch is in exactly one sub-range") {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        const Launch launch = random_launch(random);
        std::vector<double> shares(1 + random() % 9);
        for (double &share : shares)
            share = random() % 4 == 0 ? 0 : static_cast<double>(1 + random() % 100);
        const auto parts = partition(launch, shares);
        REQUIRE(parts.size() == shares.size());

        std::map<std::array<std::size_t, 3>, std::size_t> owner;  // the sub-range of each group
        std::size_t sum = 0;
        const bool none = std::accumulate(shares.begin(), shares.end(), 0.0) == 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const SubRange &part = parts[i];
            sum += items(part);
            if (shares[i] == 0 && !none) CHECK(part.empty());
            if (part.empty()) {
                CHECK(part == SubRange{});
                continue;
            }
            for (std::size_t z = part.begin[2]; z < part.end[2]; ++z) {
                for (std::size_t y = part.begin[1]; y < part.end[1]; ++y) {
                    for (std::size_t x = part.begin[0]; x < part.end[0]; ++x) {
                        const auto [at, first] = owner.try_emplace(
                            {x / launch.local[0], y / launch.local[1], z / launch.local[2]}, i);
                        REQUIRE(at->second == i);
                    }
                }
            }
        }
        CHECK(sum == items(whole(launch)));
        CHECK(owner.size() == groups(launch));
    }
}

TEST_CASE("equal sub-ranges of the highest dimension differ by one layer of groups at most") {
    for (std::size_t layers = 1; layers < 40; ++layers) {
        for (std::size_t count = 1; count <= layers; ++count) {
            const Launch launch{2, {0, 0, 0}, {64, layers * 8, 1}, {16, 8, 1}};
            const auto parts = partition(launch, std::vector<double>(count, 0.1));
            for (const SubRange &part : parts) {
                CHECK(part.begin[0] == 0);
                CHECK(part.end[0] == 64);
                const std::size_t here = (part.end[1] - part.begin[1]) / 8;
                CHECK(here >= layers / count);
                CHECK(here <= (layers + count - 1) / count);
            }
        }
    }
}

TEST_CASE("each border of a sub-range is within half a layer of its exact position") {
    std::mt19937 random(2);
    for (int round = 0; round < 1000; ++round) {
        std::vector<double> shares(1 + random() % 6);
        for (double &share : shares) share = 0.01 + static_cast<double>(random() % 1000);
        const Launch launch{1, {0, 0, 0}, {shares.size() * 10 + random() % 1000, 1, 1}, {1, 1, 1}};
        const auto parts = partition(launch, shares);
        const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const double wanted = shares[i] / all * static_cast<double>(launch.global[0]);
            CHECK(std::fabs(static_cast<double>(items(parts[i])) - wanted) <= 1.0 + 1e-9);
        }
    }
}

TEST_CASE(
    "if the highest dimension has too few groups, lower dimensions are cut and no sub-range is "
    "empty") {
    const Launch launch{3, {0, 0, 0}, {32, 16, 2}, {4, 4, 1}};  // 8 x 4 x 2 groups
    for (std::size_t count = 3; count <= 64; ++count) {
        const auto parts = partition(launch, std::vector<double>(count, 1));
        for (const SubRange &part : parts) CHECK_FALSE(part.empty());
    }
    for (const SubRange &part : partition(launch, std::vector<double>(8, 1))) {
        CHECK(items(part) == 128);
        CHECK(part.end[2] - part.begin[2] == 1);
        CHECK(part.end[0] - part.begin[0] == 32);
    }
    // A sub-range with nearly all the work is not limited to half of the launch.
    const auto parts = partition(Launch{2, {0, 0, 0}, {100, 2, 1}, {1, 1, 1}},
                                 std::vector<double>{0.9, 0.05, 0.05});
    CHECK(items(parts[0]) == 180);
    CHECK(items(parts[1]) == 10);
}

TEST_CASE("if there are fewer groups than sub-ranges, the largest shares get one group each") {
    const Launch launch{1, {0, 0, 0}, {20, 1, 1}, {8, 1, 1}};
    const auto parts = partition(launch, std::vector<double>{1, 5, 2, 4});
    CHECK(parts[0].empty());
    CHECK(parts[1] == SubRange{{0, 0, 0}, {8, 1, 1}});
    CHECK(parts[2] == SubRange{{8, 0, 0}, {16, 1, 1}});
    CHECK(parts[3] == SubRange{{16, 0, 0}, {20, 1, 1}});
}

TEST_CASE("a sub-range is empty if its share is less than half of the smallest unit") {
    // Whole layers are cut: 8 layers of 64 work-items each.
    const Launch layers{2, {0, 0, 0}, {64, 8, 1}, {1, 1, 1}};
    CHECK(items(partition(layers, std::vector<double>{100, 1})[0]) == 512);
    CHECK(items(partition(layers, std::vector<double>{100, 7})[1]) == 64);
    // Many small shares. If rounding errors added up, some of them would get a layer.
    std::vector<double> shares(6, 0.3);
    shares[2] = 6.5;
    const auto parts = partition(layers, shares);
    for (std::size_t i = 0; i < parts.size(); ++i) CHECK(items(parts[i]) == (i == 2 ? 512 : 0));
    // Work-groups are cut.
    const Launch groups{2, {0, 0, 0}, {40, 1, 1}, {10, 1, 1}};
    CHECK(items(partition(groups, std::vector<double>{100, 1})[0]) == 40);
    CHECK(items(partition(groups, std::vector<double>{3, 1})[1]) == 10);
    // With equal shares no sub-range is empty.
    for (const SubRange &part : partition(layers, std::vector<double>(8, 1)))
        CHECK(items(part) == 64);
    for (const SubRange &part : partition(layers, std::vector<double>(512, 1)))
        CHECK(items(part) == 1);
}

TEST_CASE("invalid shares count as zero; if all shares are zero the sub-ranges are equal") {
    const Launch launch{1, {0, 0, 0}, {12, 1, 1}, {1, 1, 1}};
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto parts = partition(launch, std::vector<double>{nan, 1, -3, INFINITY});
    CHECK(items(parts[1]) == 12);
    for (const SubRange &part : partition(launch, std::vector<double>{0, 0, 0}))
        CHECK(items(part) == 4);
    CHECK(partition(launch, {}).empty());
}

TEST_CASE("a launch of many sub-ranges is cut") {
    const Launch launch{2, {0, 0, 0}, {4096, 64, 1}, {16, 16, 1}};
    std::size_t sum = 0;
    for (const SubRange &part : partition(launch, std::vector<double>(1024, 1))) {
        CHECK(items(part) == 256);
        sum += items(part);
    }
    CHECK(sum == 4096 * 64);
}
