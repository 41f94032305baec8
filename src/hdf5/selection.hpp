#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cldist {

/// A regular hyperslab in one dimension: `count` blocks of `block` indices, `stride` apart.
struct Indices {
    std::uint64_t start = 0;
    std::uint64_t stride = 1;
    std::uint64_t count = 1;
    std::uint64_t block = 1;

    [[nodiscard]] std::uint64_t size() const { return count * block; }
    [[nodiscard]] bool consecutive() const { return count <= 1 || stride == block; }
    /// If the indices are consecutive, returns them as blocks of one index.
    [[nodiscard]] Indices simplified() const;

    bool operator==(const Indices &) const = default;
};

/// A part of a hyperslab: `elements` elements from `first` on.
struct ElementRange {
    std::uint64_t first;
    std::uint64_t elements;
};

/// The positions at which a hyperslab is cut: after `first` elements (0: no first cut), and then
/// after every `elements`.
struct Cuts {
    std::uint64_t first;
    std::uint64_t elements;

    bool operator==(const Cuts &) const = default;
};

/// A regular hyperslab in a dataset, with the slowest dimension first. Not empty.
class Hyperslab {
public:
    /// Both have the same number of dimensions. For a scalar both are empty.
    Hyperslab(std::vector<std::uint64_t> extent, std::vector<Indices> dimensions);

    [[nodiscard]] const std::vector<Indices> &dimensions() const { return dimensions_; }
    [[nodiscard]] std::uint64_t elements() const;

    /// If the elements are contiguous in the dataset, returns the number of the first element.
    [[nodiscard]] std::optional<std::uint64_t> run_start() const;

    /// The number of elements in the smallest part that is a hyperslab: one block along the slowest
    /// dimension with several blocks.
    [[nodiscard]] std::uint64_t cut_elements() const;
    /// For a chunked dataset: cuts at chunk borders along that dimension, so that each chunk is in
    /// one part only, unless a block crosses a border. If the stride does not divide the chunk,
    /// cuts after every cut_elements().
    [[nodiscard]] Cuts cuts(const std::vector<std::uint64_t> &chunk) const;
    /// `range` must begin and end at multiples of cut_elements().
    [[nodiscard]] Hyperslab part(ElementRange range) const;

private:
    /// The slowest dimension with several blocks, or else the last dimension.
    [[nodiscard]] std::size_t cut_dimension() const;

    std::vector<std::uint64_t> extent_;
    std::vector<Indices> dimensions_;
};

}  // namespace cldist
