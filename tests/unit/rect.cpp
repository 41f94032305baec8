#include "pipeline/rect.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "base/status.hpp"

using namespace cldist;

namespace {

using Memory = std::vector<std::byte>;

Memory numbered(std::size_t size, unsigned from) {
    Memory bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(from + i);
    return bytes;
}

// The offset in memory of each byte of the packed message.
std::vector<std::size_t> places(const RectRegion &r) {
    std::vector<std::size_t> all;
    for (std::size_t z = 0; z < r.slices; ++z)
        for (std::size_t y = 0; y < r.rows; ++y)
            for (std::size_t x = 0; x < r.width; ++x)
                all.push_back(z * r.slice_pitch + y * r.row_pitch + x);
    return all;
}

void for_all_shapes(const std::function<void(const RectRegion &)> &use) {
    for (const std::size_t width : {1, 2, 3, 4, 8, 12, 16, 17})
        for (std::size_t rows = 1; rows <= 3; ++rows)
            for (std::size_t slices = 1; slices <= 3; ++slices)
                for (std::size_t gap = 0; gap <= 2; ++gap)
                    for (std::size_t rows_between = 0; rows_between <= 2; ++rows_between)
                        use({width, rows, slices, width + gap,
                             (rows + rows_between) * (width + gap)});
}

std::vector<RowRun> runs(const RectRegion &region, std::size_t offset, std::size_t size) {
    std::vector<RowRun> all;
    for_each_row_run(region, offset, size, [&](const RowRun &run) { all.push_back(run); });
    return all;
}

PlacedRect place(const std::vector<std::size_t> &origin, const std::vector<std::size_t> &region,
                 std::size_t row_pitch, std::size_t slice_pitch, std::size_t buffer_size) {
    const PlacedRect placed =
        place_rect({origin.data(), region.data(), row_pitch, slice_pitch}, buffer_size);
    return {placed.offset, placed.region.simplified()};
}

void refuse(const std::vector<std::size_t> &origin, const std::vector<std::size_t> &region,
            std::size_t row_pitch, std::size_t slice_pitch, std::size_t buffer_size,
            const std::string &says) {
    CAPTURE(says);
    try {
        place(origin, region, row_pitch, slice_pitch, buffer_size);
        FAIL("was accepted");
    } catch (const Error &error) {
        CHECK(error.status().code == CL_INVALID_VALUE);
        CHECK_MESSAGE(error.status().message.find(says) != std::string::npos,
                      error.status().message);
    }
}

}  // namespace

TEST_CASE(
    "any range of any region is packed and unpacked as byte by byte, and no other byte changes") {
    for_all_shapes([](const RectRegion &shape) {
        const std::vector<std::size_t> at = places(shape);
        REQUIRE(shape.size() == at.size());
        REQUIRE(shape.extent() == at.back() + 1);
        bool right = true;
        for (const RectRegion &region : {shape, shape.simplified()}) {
            const Memory memory = numbered(region.extent(), 1);
            for (std::size_t offset = 0; offset < at.size(); ++offset) {
                // All sizes of small regions, a sample for larger regions.
                const std::size_t step = at.size() > 40 ? 5 : 1;
                for (std::size_t size = 1; offset + size <= at.size(); size += step) {
                    Memory message(size);
                    pack(region, memory.data(), offset, size, message.data());
                    for (std::size_t i = 0; i < size; ++i)
                        right = right && message[i] == memory[at[offset + i]];

                    const Memory incoming = numbered(size, 101);
                    Memory expected = memory;
                    for (std::size_t i = 0; i < size; ++i) expected[at[offset + i]] = incoming[i];
                    Memory found = memory;
                    unpack(region, found.data(), offset, size, incoming.data());
                    right = right && found == expected;
                }
            }
        }
        CAPTURE(shape.width);
        CAPTURE(shape.rows);
        CAPTURE(shape.slices);
        CAPTURE(shape.row_pitch);
        CAPTURE(shape.slice_pitch);
        CHECK(right);
    });
}

TEST_CASE(
    "a region is simplified to the fewest rows and slices with the same bytes in the same order") {
    for_all_shapes([](const RectRegion &shape) {
        const RectRegion simple = shape.simplified();
        CHECK(places(simple) == places(shape));
        CHECK(simple.simplified() == simple);
        CHECK(simple.slices <= shape.slices);
    });
    CHECK(RectRegion{4, 512, 512, 2048, 512 * 2048}.simplified() ==
          RectRegion{4, 512 * 512, 1, 2048, 4 * 262144 * 512});
    CHECK(RectRegion{2048, 1, 512, 2048, 512 * 2048}.simplified() ==
          RectRegion{2048, 512, 1, 512 * 2048, 512 * 512 * 2048});
    CHECK(RectRegion{2048, 512, 1, 2048, 512 * 2048}.simplified().contiguous());
    CHECK_FALSE(RectRegion{4, 2, 1, 5, 10}.simplified().contiguous());
}

TEST_CASE(
    "a range of a message is split into the rest of a row, whole rows of each slice, and the start "
    "of a row") {
    const RectRegion region{4, 3, 2, 5, 20};
    CHECK(runs(region, 0, 24) == std::vector<RowRun>{{0, 0, 4, 3}, {20, 12, 4, 3}});
    CHECK(runs(region, 1, 22) ==
          std::vector<RowRun>{{1, 0, 3, 1}, {5, 3, 4, 2}, {20, 11, 4, 2}, {30, 19, 3, 1}});
    CHECK(runs(region, 5, 2) == std::vector<RowRun>{{6, 0, 2, 1}});
    CHECK(runs(region, 7, 2) == std::vector<RowRun>{{8, 0, 1, 1}, {10, 1, 1, 1}});
    CHECK(runs(region, 0, 0).empty());
}

TEST_CASE("a region starts where clEnqueueReadBufferRect puts it, and pitches of 0 are replaced") {
    const PlacedRect all_given = place({3, 2, 1}, {4, 5, 6}, 10, 100, 10000);
    CHECK(all_given.offset == 123);
    CHECK(all_given.region == RectRegion{4, 5, 6, 10, 100});
    const PlacedRect no_slice_pitch = place({3, 2, 1}, {4, 5, 6}, 10, 0, 10000);
    CHECK(no_slice_pitch.offset == 1 * 50 + 2 * 10 + 3);
    CHECK(no_slice_pitch.region == RectRegion{4, 30, 1, 10, 300});
    const PlacedRect none = place({3, 2, 1}, {4, 5, 6}, 0, 0, 10000);
    CHECK(none.offset == 1 * 20 + 2 * 4 + 3);
    CHECK(none.region.contiguous());
    CHECK(none.region.size() == 120);
}

TEST_CASE("a region may end with its buffer, but not one byte later") {
    const std::size_t last = 1 * 100 + 2 * 10 + 3 + 5 * 100 + 4 * 10 + 4;
    CHECK_NOTHROW(place({3, 2, 1}, {4, 5, 6}, 10, 100, last));
    refuse({3, 2, 1}, {4, 5, 6}, 10, 100, last - 1, "exceed the buffer of 666 bytes");
}

TEST_CASE("invalid regions are refused, and the message contains their numbers") {
    constexpr std::size_t highest = std::numeric_limits<std::size_t>::max();
    for (std::size_t zero = 0; zero < 3; ++zero) {
        std::vector<std::size_t> region{1, 1, 1};
        region[zero] = 0;
        refuse({0, 0, 0}, region, 0, 0, 100, "has a 0");
    }
    refuse({0, 0, 0}, {4, 2, 2}, 3, 0, 100, "row_pitch is 3; expected 0 or at least region[0] (4)");
    refuse({0, 0, 0}, {4, 2, 2}, 5, 5, 100, "slice_pitch is 5; expected");
    refuse({0, 0, 0}, {4, 2, 2}, 5, 11, 100, "slice_pitch is 11; expected");
    refuse({highest, 0, 0}, {1, 1, 1}, 0, 0, 100, "exceed the buffer");
    refuse({0, highest, 0}, {2, 1, 1}, 0, 0, 100, "exceed the buffer");
    refuse({0, 0, highest}, {2, 1, 1}, 0, 0, 100, "exceed the buffer");
    refuse({1, 1, 1}, {2, 1, 1}, highest, highest, 100, "exceed the buffer");
    refuse({0, 0, 0}, {highest, 1, 1}, 0, 0, 100, "exceed the buffer");
    refuse({0, 0, 0}, {std::size_t{1} << 32U, std::size_t{1} << 32U, 1}, 0, 0, 100,
           "exceed the buffer");
    refuse({0, 0, 0}, {1, std::size_t{1} << 32U, std::size_t{1} << 32U}, 0, 0, 100,
           "exceed the buffer");
    const std::size_t one[] = {1, 1, 1};
    CHECK_THROWS_AS(place_rect({nullptr, one, 0, 0}, 100), Error);
    CHECK_THROWS_AS(place_rect({one, nullptr, 0, 0}, 100), Error);
}

TEST_CASE(
    "two regions overlap exactly if one of their bytes is the same, whatever their shapes and "
    "pitches") {
    std::vector<RectRegion> shapes;
    for (const std::size_t width : {1, 3})
        for (const std::size_t rows : {1, 2, 3})
            for (const std::size_t slices : {1, 2})
                for (const std::size_t gap : {0, 2, 3})
                    shapes.push_back(RectRegion{width, rows, slices, width + gap,
                                                (rows + gap % 2) * (width + gap)}
                                         .simplified());
    int overlapping = 0;
    for (const RectRegion &a : shapes)
        for (const RectRegion &b : shapes) {
            const std::vector<std::size_t> of_a = places(a);
            const std::vector<std::size_t> of_b = places(b);
            const auto reach = static_cast<std::ptrdiff_t>(std::max(a.extent(), b.extent()));
            bool right = true;
            for (std::ptrdiff_t distance = -reach; distance <= reach; ++distance) {
                const bool expected = std::any_of(of_b.begin(), of_b.end(), [&](std::size_t at) {
                    const auto moved =
                        static_cast<std::size_t>(static_cast<std::ptrdiff_t>(at) + distance);
                    return std::find(of_a.begin(), of_a.end(), moved) != of_a.end();
                });
                right = right && overlap(a, b, distance) == expected;
                overlapping += expected ? 1 : 0;
            }
            CHECK(right);
        }
    CHECK(overlapping > 1000);
}
