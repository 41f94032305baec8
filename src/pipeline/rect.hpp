#pragma once

#include <algorithm>
#include <cstddef>

namespace cldist {

/// The shape of a rectangular region in memory, from its first byte on: rows of bytes in slices.
/// Rows don't overlap. The message of a region contains its rows one after the other, slice by
/// slice.
struct RectRegion {
    std::size_t width = 0;        ///< bytes of a row
    std::size_t rows = 1;         ///< rows per slice
    std::size_t slices = 1;       ///< slices of the region
    std::size_t row_pitch = 0;    ///< bytes from one row to the next
    std::size_t slice_pitch = 0;  ///< bytes from one slice to the next

    /// Bytes of the message.
    [[nodiscard]] std::size_t size() const { return width * rows * slices; }
    /// Bytes from the first to the last byte of the region.
    [[nodiscard]] std::size_t extent() const {
        return (slices - 1) * slice_pitch + (rows - 1) * row_pitch + width;
    }
    [[nodiscard]] bool contiguous() const { return extent() == size(); }
    /// The same bytes in the same order, with as few slices and rows as possible.
    [[nodiscard]] RectRegion simplified() const;

    bool operator==(const RectRegion &) const = default;
};

/// A region in a buffer.
struct PlacedRect {
    std::size_t offset;  ///< bytes before its first byte
    RectRegion region;
};

/// Returns true if the regions have a byte in common. The first byte of `b` is `distance` bytes
/// behind the first byte of `a` (before it if negative).
[[nodiscard]] bool overlap(const RectRegion &a, const RectRegion &b, std::ptrdiff_t distance);

/// The arguments of a rectangular command, as in clEnqueueReadBufferRect.
struct RectArguments {
    const std::size_t *origin;  ///< bytes, rows, slices
    const std::size_t *region;  ///< bytes, rows, slices
    std::size_t row_pitch;      ///< 0: region[0]
    std::size_t slice_pitch;    ///< 0: region[1] * row_pitch
};

/// Checks the arguments against a buffer of `buffer_size` bytes, or host memory if SIZE_MAX. Throws
/// an Error with CL_INVALID_VALUE.
PlacedRect place_rect(const RectArguments &arguments, std::size_t buffer_size);

/// Some rows that have the region's row pitch in memory and are contiguous in the message. They are
/// complete rows of one slice, or a part of a single row.
struct RowRun {
    std::size_t memory;   ///< bytes from the region's first byte
    std::size_t message;  ///< bytes from the start of the requested part
    std::size_t width;    ///< bytes of each row
    std::size_t count;

    bool operator==(const RowRun &) const = default;
};

/// Calls `use` with the rows that contain `size` bytes of the message from `offset` on, in order.
template <typename Use>
void for_each_row_run(const RectRegion &region, std::size_t offset, std::size_t size, Use &&use) {
    for (std::size_t done = 0; done < size;) {
        const std::size_t left = size - done;
        const std::size_t row = (offset + done) / region.width;
        const std::size_t column = (offset + done) % region.width;
        const std::size_t row_of_slice = row % region.rows;
        RowRun run{
            row / region.rows * region.slice_pitch + row_of_slice * region.row_pitch + column, done,
            region.width, std::min(left / region.width, region.rows - row_of_slice)};
        if (column != 0 || run.count == 0) {
            run.width = std::min(left, region.width - column);
            run.count = 1;
        }
        use(run);
        done += run.width * run.count;
    }
}

/// Copies `size` bytes of the region's message, from `offset` on, to `message`. `memory` is the
/// region's first byte.
void pack(const RectRegion &region, const std::byte *memory, std::size_t offset, std::size_t size,
          std::byte *message);
/// The reverse copy. It touches no other bytes of the region.
void unpack(const RectRegion &region, std::byte *memory, std::size_t offset, std::size_t size,
            const std::byte *message);

}  // namespace cldist
