#include "hdf5/selection.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include <doctest/doctest.h>

using namespace cldist;

namespace {

using Numbers = std::vector<std::uint64_t>;

Numbers indices_of(const Indices &indices) {
    Numbers all;
    for (std::uint64_t n = 0; n < indices.count; ++n)
        for (std::uint64_t i = 0; i < indices.block; ++i)
            all.push_back(indices.start + n * indices.stride + i);
    return all;
}

// The index in the dataset of each selected element, in the order of the selection.
Numbers elements_of(const Numbers &extent, const std::vector<Indices> &dimensions) {
    Numbers all = {0};
    for (std::size_t d = 0; d < extent.size(); ++d) {
        Numbers next;
        for (const std::uint64_t slower : all)
            for (const std::uint64_t index : indices_of(dimensions[d]))
                next.push_back(slower * extent[d] + index);
        all = next;
    }
    return all;
}

std::vector<Indices> all_of(std::uint64_t extent) {
    std::vector<Indices> all;
    for (std::uint64_t start = 0; start < extent; ++start)
        for (std::uint64_t block = 1; block <= 2; ++block)
            for (std::uint64_t count = 1; count <= 3; ++count)
                for (std::uint64_t stride = block; stride <= block + 1; ++stride)
                    if (start + (count - 1) * stride + block <= extent)
                        all.push_back({start, stride, count, block});
    return all;
}

using Use = std::function<void(const Numbers &extent, const std::vector<Indices> &dimensions)>;

void for_all(const Numbers &extent, const Use &use, const std::vector<Indices> &slower = {}) {
    if (slower.size() == extent.size()) {
        use(extent, slower);
        return;
    }
    for (const Indices &indices : all_of(extent[slower.size()])) {
        std::vector<Indices> dimensions = slower;
        dimensions.push_back(indices);
        for_all(extent, use, dimensions);
    }
}

void for_all_hyperslabs(const Use &use) {
    for (const Numbers &extent :
         std::initializer_list<Numbers>{{}, {1}, {7}, {1, 5}, {4, 5}, {3, 1, 3}, {2, 3, 3}})
        for_all(extent, use);
}

}  // namespace

TEST_CASE("the parts of any hyperslab, one after the other, are the hyperslab") {
    for_all_hyperslabs([](const Numbers &extent, const std::vector<Indices> &dimensions) {
        const Numbers wanted = elements_of(extent, dimensions);
        const Hyperslab slab(extent, dimensions);
        REQUIRE(slab.elements() == wanted.size());
        REQUIRE(elements_of(extent, slab.dimensions()) == wanted);
        const std::uint64_t unit = slab.cut_elements();
        REQUIRE(wanted.size() % unit == 0);
        for (std::uint64_t units = 1; units * unit <= wanted.size(); ++units) {
            Numbers found;
            for (std::uint64_t first = 0; first < wanted.size(); first += units * unit) {
                const std::uint64_t elements =
                    std::min<std::uint64_t>(units * unit, wanted.size() - first);
                const Hyperslab part = slab.part({first, elements});
                REQUIRE(part.elements() == elements);
                const Numbers more = elements_of(extent, part.dimensions());
                found.insert(found.end(), more.begin(), more.end());
            }
            REQUIRE(found == wanted);
        }
    });
}

TEST_CASE(
    "a hyperslab is one run of elements exactly if its elements are consecutive in the dataset") {
    for_all_hyperslabs([](const Numbers &extent, const std::vector<Indices> &dimensions) {
        const Numbers elements = elements_of(extent, dimensions);
        const bool run = elements.back() - elements.front() == elements.size() - 1;
        const auto found = Hyperslab(extent, dimensions).run_start();
        REQUIRE(found.has_value() == run);
        if (run) REQUIRE(*found == elements.front());
    });
}

TEST_CASE("a hyperslab is cut along its slowest dimension with several blocks") {
    CHECK(Hyperslab({100, 20, 30}, {{0, 1, 100, 1}, {0, 1, 20, 1}, {0, 1, 30, 1}}).cut_elements() ==
          600);
    CHECK(Hyperslab({100, 20, 30}, {{7, 1, 1, 1}, {3, 1, 10, 1}, {5, 1, 20, 1}}).cut_elements() ==
          20);
    CHECK(Hyperslab({100, 20, 30}, {{7, 1, 1, 1}, {3, 1, 1, 1}, {5, 1, 20, 1}}).cut_elements() ==
          1);
    CHECK(Hyperslab({100, 20, 30}, {{0, 5, 20, 3}, {3, 1, 10, 1}, {5, 2, 10, 1}}).cut_elements() ==
          300);
}

TEST_CASE("chunked datasets are cut at chunk borders") {
    const Numbers chunk = {8, 4, 16};
    const auto cuts = [&](const Indices &planes) {
        return Hyperslab({64, 20, 30}, {planes, {0, 1, 20, 1}, {0, 1, 30, 1}}).cuts(chunk);
    };
    // Cuts between chunks of planes.
    CHECK(cuts({0, 1, 64, 1}) == Cuts{0, 8 * 600});
    CHECK(cuts({8, 1, 40, 1}) == Cuts{0, 8 * 600});
    CHECK(cuts({5, 1, 40, 1}) == Cuts{3 * 600, 8 * 600});
    // Cuts between chunks of rows, within one plane.
    CHECK(cuts({5, 1, 1, 1}) == Cuts{0, 4 * 30});
    // Every second plane: four of the selected planes per chunk.
    CHECK(cuts({0, 2, 32, 1}) == Cuts{0, 4 * 600});
    CHECK(cuts({3, 2, 20, 1}) == Cuts{3 * 600, 4 * 600});
    // Every third plane: the chunk borders are not equidistant.
    CHECK(cuts({0, 3, 20, 1}) == Cuts{0, 600});
    // Planes further apart than a chunk is wide.
    CHECK(cuts({0, 16, 4, 1}) == Cuts{0, 600});
}

TEST_CASE("no chunk is on both sides of a cut") {
    for (std::uint64_t start = 0; start < 12; ++start)
        for (std::uint64_t width = 1; width <= 12; ++width)
            for (std::uint64_t stride = 1; stride <= width; ++stride) {
                if (width % stride != 0) continue;
                constexpr std::uint64_t planes = 20;
                const Hyperslab slab({300, 5}, {{start, stride, planes, 1}, {0, 1, 5, 1}});
                const auto [first, every] = slab.cuts({width, 2});
                for (std::uint64_t n = 1; n < planes; ++n) {
                    const bool cut = 5 * n >= first && (5 * n - first) % every == 0;
                    const bool border =
                        (start + n * stride) / width != (start + (n - 1) * stride) / width;
                    REQUIRE(cut == border);
                }
            }
}
