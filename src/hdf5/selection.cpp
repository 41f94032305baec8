#include "hdf5/selection.hpp"

#include <algorithm>
#include <utility>

namespace cldist {

Indices Indices::simplified() const {
    if (!consecutive()) return *this;
    return {start, 1, size(), 1};
}

Hyperslab::Hyperslab(std::vector<std::uint64_t> extent, std::vector<Indices> dimensions)
    : extent_(std::move(extent)), dimensions_(std::move(dimensions)) {
    for (Indices &indices : dimensions_) indices = indices.simplified();
}

std::uint64_t Hyperslab::elements() const {
    std::uint64_t product = 1;
    for (const Indices &indices : dimensions_) product *= indices.size();
    return product;
}

std::optional<std::uint64_t> Hyperslab::run_start() const {
    // From the slowest dimension on, a contiguous run has single indices, then one range of
    // indices, then complete dimensions.
    bool rest_is_whole = false;
    std::uint64_t start = 0;
    for (std::size_t d = 0; d < dimensions_.size(); ++d) {
        const Indices &indices = dimensions_[d];
        if (!indices.consecutive() || (rest_is_whole && indices.size() != extent_[d]))
            return std::nullopt;
        rest_is_whole = rest_is_whole || indices.size() > 1;
        start = start * extent_[d] + indices.start;
    }
    return start;
}

std::size_t Hyperslab::cut_dimension() const {
    const auto several = std::find_if(dimensions_.begin(), dimensions_.end(),
                                      [](const Indices &indices) { return indices.count > 1; });
    const auto found = static_cast<std::size_t>(several - dimensions_.begin());
    return found < dimensions_.size() ? found : found - 1;
}

std::uint64_t Hyperslab::cut_elements() const {
    if (dimensions_.empty()) return 1;
    const std::size_t cut = cut_dimension();
    std::uint64_t product = dimensions_[cut].block;
    for (std::size_t d = cut + 1; d < dimensions_.size(); ++d) product *= dimensions_[d].size();
    return product;
}

Cuts Hyperslab::cuts(const std::vector<std::uint64_t> &chunk) const {
    if (dimensions_.empty()) return {0, 1};
    const std::size_t cut = cut_dimension();
    const auto &[start, stride, count, block] = dimensions_[cut];
    const std::uint64_t unit = cut_elements();
    // If the stride does not divide the chunk, cuts rarely coincide with chunk borders.
    if (chunk[cut] % stride != 0) return {0, unit};
    const std::uint64_t in_chunk = chunk[cut] / stride;
    const std::uint64_t in_first = (chunk[cut] - start % chunk[cut] + stride - 1) / stride;
    return {in_first % in_chunk * unit, in_chunk * unit};
}

Hyperslab Hyperslab::part(ElementRange range) const {
    if (dimensions_.empty()) return *this;
    std::vector<Indices> dimensions = dimensions_;
    Indices &indices = dimensions[cut_dimension()];
    const std::uint64_t unit = cut_elements();
    indices.start += range.first / unit * indices.stride;
    indices.count = range.elements / unit;
    return {extent_, std::move(dimensions)};
}

}  // namespace cldist
