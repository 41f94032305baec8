#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cldist {

/// Which indices of one dimension a regular hyperslab has: `count` blocks of `block` indices, `stride` apart.
struct Indices {
    std::uint64_t start = 0;
    std::uint64_t stride = 1;
    std::uint64_t count = 1;
    std::uint64_t block = 1;

    [[nodiscard]] std::uint64_t size() const { return count * block; }
    [[nodiscard]] bool consecutive() const { return count <= 1 || stride == block; }
    /// The same indices with the smallest blocks, if they are consecutive.
    [[nodiscard]] Indices simplified() const;

    bool operator==(const Indices &) const = default;
};

/// A part of a hyperslab: `elements` of it, from `first` on.
struct ElementRange {
    std::uint64_t first;
    std::uint64_t elements;
};

/// Where a hyperslab is cut: after `first` elements, 0 for none, and then after every `elements`.
struct Cuts {
    std::uint64_t first;
    std::uint64_t elements;

    bool operator==(const Cuts &) const = default;
};

/// A regular hyperslab in a dataset, the slowest dimension first. Not empty.
class Hyperslab {
public:
    /// As many dimensions in both; none for a scalar.
    Hyperslab(std::vector<std::uint64_t> extent, std::vector<Indices> dimensions);

    [[nodiscard]] const std::vector<Indices> &dimensions() const { return dimensions_; }
    [[nodiscard]] std::uint64_t elements() const;

    /// Where its elements are one run of elements of the dataset, without a gap: the first one's number in the dataset.
    [[nodiscard]] std::optional<std::uint64_t> run_start() const;

    /// Elements in the smallest part that is a hyperslab itself: one block along the slowest dimension that has several.
    [[nodiscard]] std::uint64_t cut_elements() const;
    /// For a dataset in chunks: cuts between them along that dimension, so that no chunk is in two parts.
    [[nodiscard]] Cuts cuts(const std::vector<std::uint64_t> &chunk) const;
    /// `range` begins and ends at a multiple of cut_elements().
    [[nodiscard]] Hyperslab part(ElementRange range) const;

private:
    /// The slowest dimension with several blocks; the last one, if none has.
    [[nodiscard]] std::size_t cut_dimension() const;

    std::vector<std::uint64_t> extent_;
    std::vector<Indices> dimensions_;
};

}  // namespace cldist
