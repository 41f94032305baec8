#include "pipeline/rect.hpp"

#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/status.hpp"

namespace cldist {
namespace {

// Saturating arithmetic, because the user's numbers may be arbitrarily large.
constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();

std::size_t times(std::size_t a, std::size_t b) {
    std::size_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? largest : product;
}

std::size_t plus(std::size_t a, std::size_t b) {
    std::size_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? largest : sum;
}

std::size_t offset_of(std::size_t column, std::size_t row, std::size_t slice, std::size_t row_pitch,
                      std::size_t slice_pitch) {
    return plus(plus(times(slice, slice_pitch), times(row, row_pitch)), column);
}

// If the compiler knows the row length, a copy takes one or two instructions.
template <std::size_t width>
void copy_short_rows(const std::byte *from, std::size_t from_pitch, std::byte *to,
                     std::size_t to_pitch, std::size_t count) {
    for (std::size_t row = 0; row < count; ++row)
        std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
}

void copy_rows(const std::byte *from, std::size_t from_pitch, std::byte *to, std::size_t to_pitch,
               std::size_t width, std::size_t count) {
    switch (width) {
        case 1: return copy_short_rows<1>(from, from_pitch, to, to_pitch, count);
        case 2: return copy_short_rows<2>(from, from_pitch, to, to_pitch, count);
        case 4: return copy_short_rows<4>(from, from_pitch, to, to_pitch, count);
        case 8: return copy_short_rows<8>(from, from_pitch, to, to_pitch, count);
        case 12: return copy_short_rows<12>(from, from_pitch, to, to_pitch, count);
        case 16: return copy_short_rows<16>(from, from_pitch, to, to_pitch, count);
        default: break;
    }
    for (std::size_t row = 0; row < count; ++row)
        std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
}

// Compares a_count pieces of a_size bytes with b_count pieces of b_size bytes. Both series have the
// same `pitch`, and the first piece of b is `distance` bytes behind the first piece of a. Calls
// `use` with the distance between the pieces of each pair that has a byte in common. Returns true
// as soon as a call returns true.
template <typename Use>
bool any_meeting(std::ptrdiff_t distance, std::size_t pitch, std::size_t a_count,
                 std::size_t a_size, std::size_t b_count, std::size_t b_size, Use &&use) {
    const auto step = static_cast<std::ptrdiff_t>(pitch);
    const std::ptrdiff_t first = 1 - static_cast<std::ptrdiff_t>(b_size) - distance;
    std::ptrdiff_t k = first / step + (first % step > 0 ? 1 : 0);
    k = std::max(k, 1 - static_cast<std::ptrdiff_t>(a_count));
    for (; k < static_cast<std::ptrdiff_t>(b_count); ++k) {
        const std::ptrdiff_t between = distance + k * step;
        if (between >= static_cast<std::ptrdiff_t>(a_size)) return false;
        if (use(between)) return true;
    }
    return false;
}

std::size_t extent_of_slice(const RectRegion &region) {
    return (region.rows - 1) * region.row_pitch + region.width;
}

}  // namespace

bool overlap(const RectRegion &a, const RectRegion &b, std::ptrdiff_t distance) {
    // A single row or slice fits any pitch.
    const bool same_rows = a.rows == 1 || b.rows == 1 || a.row_pitch == b.row_pitch;
    const bool same_slices = a.slices == 1 || b.slices == 1 || a.slice_pitch == b.slice_pitch;
    if (same_rows && same_slices) {
        const std::size_t row_pitch = a.rows == 1 ? b.row_pitch : a.row_pitch;
        const std::size_t slice_pitch = a.slices == 1 ? b.slice_pitch : a.slice_pitch;
        return any_meeting(distance, slice_pitch, a.slices, extent_of_slice(a), b.slices,
                           extent_of_slice(b), [&](std::ptrdiff_t between) {
                               return any_meeting(between, row_pitch, a.rows, a.width, b.rows,
                                                  b.width, [](std::ptrdiff_t) { return true; });
                           });
    }
    if (a.rows * a.slices > b.rows * b.slices) return overlap(b, a, -distance);
    for (std::size_t slice = 0; slice < a.slices; ++slice)
        for (std::size_t row = 0; row < a.rows; ++row) {
            const std::size_t at = slice * a.slice_pitch + row * a.row_pitch;
            if (overlap({a.width, 1, 1, a.width, a.width}, b,
                        distance - static_cast<std::ptrdiff_t>(at)))
                return true;
        }
    return false;
}

RectRegion RectRegion::simplified() const {
    RectRegion simple = *this;
    if (simple.rows > 1 && simple.row_pitch == simple.width) {
        simple.width *= simple.rows;
        simple.rows = 1;
    }
    if (simple.rows == 1) {
        simple.rows = simple.slices;
        simple.row_pitch = simple.slice_pitch;
        simple.slices = 1;
    } else if (simple.slices > 1 && simple.slice_pitch == simple.rows * simple.row_pitch) {
        simple.rows *= simple.slices;
        simple.slices = 1;
    }
    if (simple.rows > 1 && simple.row_pitch == simple.width) {
        simple.width *= simple.rows;
        simple.rows = 1;
    }
    // A pitch does not matter if there is only one row or slice.
    if (simple.rows == 1) simple.row_pitch = simple.width;
    if (simple.slices == 1) simple.slice_pitch = simple.rows * simple.row_pitch;
    return simple;
}

PlacedRect place_rect(const RectArguments &arguments, std::size_t buffer_size) {
    const auto invalid = [](std::string message) {
        return Error(CL_INVALID_VALUE, std::move(message));
    };
    const std::size_t *origin = arguments.origin;
    const std::size_t *region = arguments.region;
    if (origin == nullptr || region == nullptr)
        throw invalid(fmt::format("{} is NULL", origin == nullptr ? "origin" : "region"));
    if (region[0] == 0 || region[1] == 0 || region[2] == 0)
        throw invalid(
            fmt::format("region {{{}, {}, {}}} has a 0", region[0], region[1], region[2]));
    const std::size_t row_pitch = arguments.row_pitch != 0 ? arguments.row_pitch : region[0];
    if (row_pitch < region[0])
        throw invalid(fmt::format("row_pitch is {}; expected 0 or at least region[0] ({})",
                                  row_pitch, region[0]));
    const std::size_t slice = times(region[1], row_pitch);
    const std::size_t slice_pitch = arguments.slice_pitch != 0 ? arguments.slice_pitch : slice;
    if (arguments.slice_pitch != 0 && (slice_pitch < slice || slice_pitch % row_pitch != 0))
        throw invalid(fmt::format(
            "slice_pitch is {}; expected 0 or a multiple of row_pitch ({}) of at least {}",
            slice_pitch, row_pitch, slice));
    const std::size_t first = offset_of(origin[0], origin[1], origin[2], row_pitch, slice_pitch);
    const std::size_t extent =
        offset_of(region[0], region[1] - 1, region[2] - 1, row_pitch, slice_pitch);
    if (first > buffer_size || extent > buffer_size - first)
        throw invalid(fmt::format(
            "origin {{{}, {}, {}}} and region {{{}, {}, {}}} with pitches {} and {} "
            "exceed {}",
            origin[0], origin[1], origin[2], region[0], region[1], region[2], row_pitch,
            slice_pitch,
            buffer_size == SIZE_MAX ? "the host's memory"
                                    : fmt::format("the buffer of {} bytes", buffer_size)));
    return {first, {region[0], region[1], region[2], row_pitch, slice_pitch}};
}

void pack(const RectRegion &region, const std::byte *memory, std::size_t offset, std::size_t size,
          std::byte *message) {
    for_each_row_run(region, offset, size, [&](const RowRun &run) {
        copy_rows(memory + run.memory, region.row_pitch, message + run.message, run.width,
                  run.width, run.count);
    });
}

void unpack(const RectRegion &region, std::byte *memory, std::size_t offset, std::size_t size,
            const std::byte *message) {
    for_each_row_run(region, offset, size, [&](const RowRun &run) {
        copy_rows(message + run.message, run.width, memory + run.memory, region.row_pitch,
                  run.width, run.count);
    });
}

}  // namespace cldist
